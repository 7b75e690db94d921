"""Runs a target as Python itself would: `__main__`, `sys.argv`, `sys.path` and `__file__` are what the script expects.

`runpy` does nearly the same, but it forgets the script's variables when the script ends, and with them every tensor:
here they live until the trace is written, as they do in a process that has not ended yet.
"""

from __future__ import annotations

import ast
import builtins
import importlib
import importlib.machinery
import importlib.util
import pkgutil
import sys
from collections.abc import Mapping
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from oomph.errors import InputError, UsageError
from oomph.tracing.target.model import Kind, Target

#: The script's modules, kept as long as the process.
_kept: list[ModuleType] = []


def run(target: Target) -> None:
    """Runs the target here. Whatever the script raises comes through."""
    match target.kind:
        case Kind.SCRIPT:
            _file(target)
        case Kind.MODULE:
            _module(target)
        case Kind.CODE:
            _start(target, "", compile(target.name, "<string>", "exec"), argv0="-c")
        case Kind.ENTRY:
            place = str(Path(target.program).resolve().parent) if "/" in target.program else ""
            _path(place)
            sys.argv = [target.program, *target.arguments]
            sys.exit(_attribute(target.name)())
        case Kind.FUNCTION:
            _path(str(Path.cwd()))
            sys.argv = [target.name, *target.arguments]
            _attribute(target.name)(**_keywords(target.keywords))


def _file(target: Target) -> None:
    path = str(Path.cwd() / target.name)
    if Path(path).is_dir() or pkgutil.get_importer(path) is not None:
        importer: Any = pkgutil.get_importer(path)
        spec = importer.find_spec("__main__")
        if spec is None:
            raise InputError(f"{target.name} has no __main__.py.")
        code = spec.loader.get_code("__main__")
        _start(target, path, code, argv0=target.name, spec=spec, file=spec.origin)
        return
    loader: Any
    if path.endswith(".pyc"):
        loader = importlib.machinery.SourcelessFileLoader("__main__", path)
        code = loader.get_code("__main__")
    else:
        loader = importlib.machinery.SourceFileLoader("__main__", path)
        code = loader.source_to_code(loader.get_data(path), path)  # never a file in __pycache__
    _start(target, str(Path(path).resolve().parent), code, argv0=target.name, file=path, loader=loader)


def _module(target: Target) -> None:
    _path(str(Path.cwd()))
    try:
        spec = importlib.util.find_spec(target.name)
        if spec is not None and spec.submodule_search_locations is not None:
            spec = importlib.util.find_spec(f"{target.name}.__main__")
    except ModuleNotFoundError as error:
        raise InputError(f"python -m {target.name}: {error}.") from None
    loader: Any = None if spec is None else spec.loader
    code = None if loader is None else loader.get_code(spec.name)  # type: ignore[union-attr]
    if spec is None or code is None:
        raise InputError(f"python -m {target.name}: there is no such module with code to run.")
    _start(target, str(Path.cwd()), code, argv0=spec.origin or target.name, spec=spec, file=spec.origin)


def _start(
    target: Target,
    place: str,
    code: CodeType,
    *,
    argv0: str,
    spec: importlib.machinery.ModuleSpec | None = None,
    file: str | None = None,
    loader: Any = None,
) -> None:
    """Runs code as `__main__`. A spec is there for `-m` and folders, as in Python."""
    main = ModuleType("__main__")
    namespace = main.__dict__
    namespace["__builtins__"] = builtins
    namespace["__spec__"] = spec
    namespace["__loader__"] = loader or getattr(spec, "loader", None)
    if file is not None:
        namespace |= {"__file__": file, "__cached__": None}
    if spec is not None:
        namespace["__package__"] = spec.parent
    sys.argv = [argv0, *target.arguments]
    _path(place)
    _kept.append(main)
    sys.modules["__main__"] = main
    exec(code, namespace)  # noqa: S102 - the user's own script, as Python would run it


def _path(place: str) -> None:
    """The first entry of `sys.path` as Python sets it. The one of a script that ran before this one is kept."""
    if not sys.path or sys.path[0] != place:
        sys.path.insert(0, place)


def _attribute(name: str) -> Any:
    """The object that `module:function` names. Raises InputError."""
    module, _, attributes = name.partition(":")
    try:
        found: Any = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is not None and (module == error.name or module.startswith(error.name + ".")):
            raise InputError(f"{name}: there is no module {error.name} here.") from None
        raise
    for attribute in attributes.split("."):
        if not hasattr(found, attribute):
            raise InputError(f"{name}: {module} has no {attributes}.")
        found = getattr(found, attribute)
    if not callable(found):
        raise UsageError(f"{name} is no function.")
    return found


def _keywords(written: Mapping[str, str]) -> dict[str, object]:
    """Values as Python literals; what is none is text."""
    found: dict[str, object] = {}
    for name, text in written.items():
        try:
            found[name] = ast.literal_eval(text)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            found[name] = text
    return found
