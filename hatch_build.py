"""Compiles the hot modules with mypyc when a wheel is built; where that fails, the wheel is pure Python.

Both ways run the same source and give the same results (docs/decisions/0006-allocator.md; for the walk over a pickle's
opcodes, which has a second way in pure Python: docs/decisions/0007-reading-snapshots.md). An editable install stays
pure, so that an edit is never hidden behind an older binary. `OOMPH_PURE=1` leaves the compiler out.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ALLOCATOR = "oomph/memory/allocator"
#: What is compiled, by package.
MODULES = {
    ALLOCATOR: ("arena", "blocks", "core", "expandable", "frees", "pools", "release", "sizes", "stats"),
    "oomph/evidence/snapshot": ("scan",),
}
#: What is copied to be compiled, or because that imports it.
NEEDED = (ALLOCATOR, "oomph/errors.py", "oomph/units.py", "oomph/evidence/snapshot/scan.py")
#: The shared part of the compiled modules; with dots, so that it lies inside the package and not beside it.
GROUP = "oomph.compiled"
_TIMEOUT_S = 900

_COMPILE = """
import sys
from mypyc.build import mypycify
from setuptools import setup
modules = mypycify(sys.argv[1:], opt_level="3", group_name={group!r})
setup(name="oomph", packages=[], ext_modules=modules, script_args=["build_ext", "--inplace"])
"""
#: What was built has to load, to be the compiled one, and to know a block from a segment and one opcode
#: from the next.
_TRY = """
from oomph.memory.allocator import core
from oomph.memory.allocator.settings import AllocatorSettings
allocator = core.CachingAllocator(AllocatorSettings())
allocator.free(allocator.malloc(1000))
assert not core.__file__.endswith(".py"), core.__file__
assert (allocator.reserved_bytes, allocator.peak_allocated_bytes) == (2 << 20, 1024)
from oomph.evidence.snapshot import scan
assert scan.COMPILED and not scan.__file__.endswith(".py"), scan.__file__
assert scan.whole(b"]K\\x01a.", 0, 9) == 4
"""


def compile_into(folder: Path, source: Path) -> dict[str, Path]:
    """Compiles the modules of `source` (the folder that holds the package `oomph`) in `folder`.

    The folder gets only what they import, and a configuration of its own: mypy would otherwise check the whole
    package, whose dependencies are not there when a wheel is built. Returns the compiled files by their place in the
    wheel. Raises OSError or subprocess.SubprocessError when that is not possible here.
    """
    for name in NEEDED:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        if (source / name).is_dir():
            shutil.copytree(source / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(source / name, folder / name)
    for name in MODULES:
        for package in (folder / name, *(folder / name).parents):
            if package == folder:
                break
            (package / "__init__.py").touch()
    (folder / "mypy.ini").write_text("[mypy]\n", encoding="utf-8")
    names = [f"{package}/{name}.py" for package, modules in MODULES.items() for name in modules]
    environment = {key: value for key, value in os.environ.items() if key != "MYPYPATH"}
    for script, arguments in ((_COMPILE.format(group=GROUP), names), (_TRY, [])):
        subprocess.run(  # noqa: S603 - this interpreter, on a script of this file
            [sys.executable, "-c", script, *arguments],
            check=True,
            cwd=folder,
            env=environment,
            capture_output=True,
            timeout=_TIMEOUT_S,
        )
    return _built(folder)


def _built(folder: Path) -> dict[str, Path]:
    """The compiled files of a folder by their place in the wheel."""
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    found = sorted((folder / "oomph").rglob(f"*{suffix}"))
    return {path.relative_to(folder).as_posix(): path for path in found}


def compiled(root: Path) -> dict[str, Path]:
    """The compiled files for the checkout or source tree at `root`, kept in its build folder for the next time.

    pip asks for a wheel's metadata and then for the wheel, and both run the build hook. Returns and raises as
    `compile_into`.
    """
    source = root / "src"
    digest = hashlib.sha256(Path(__file__).read_bytes())
    for name in NEEDED:
        path = source / name
        for file in sorted(path.glob("*.py")) if path.is_dir() else [path]:
            digest.update(file.read_bytes())
    tag = f"compiled-{sys.implementation.cache_tag}-{sysconfig.get_platform()}-"
    shelf = root / "build" / f"{tag}{digest.hexdigest()[:16]}"
    if not shelf.is_dir():
        shelf.parent.mkdir(exist_ok=True)
        for old in shelf.parent.glob(f"{tag}*"):
            shutil.rmtree(old, ignore_errors=True)
        with tempfile.TemporaryDirectory(prefix="compiling-", dir=shelf.parent) as folder:
            draft = Path(folder) / "done"
            for place, path in compile_into(Path(folder), source).items():
                (draft / place).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(path, draft / place)
            draft.rename(shelf)
    return _built(shelf)


def complaint(error: Exception) -> str:
    """The last line that the compiler wrote, else the error itself."""
    for stream in ("stderr", "stdout"):
        lines = (getattr(error, stream, None) or b"").decode(errors="replace").strip().splitlines()
        if lines:
            return str(lines[-1])
    return type(error).__name__ if isinstance(error, subprocess.SubprocessError) else str(error)


def wanted() -> bool:
    """Whether a compiled core can be expected here at all."""
    return sys.implementation.name == "cpython" and os.environ.get("OOMPH_PURE", "") in ("", "0")


class CompiledCore(BuildHookInterface[Any]):
    """The build hook of the wheel."""

    def dependencies(self) -> list[str]:
        """What compiling needs, where there is a compiler to use it."""
        found = any(shutil.which(name) for name in ("cc", "gcc", "clang", "cl")) or os.name == "nt"
        return ["mypy>=1.11", "setuptools>=69"] if found and wanted() else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Adds the compiled files and marks the wheel as one for this platform."""
        if version == "editable" or not wanted():
            return
        try:
            files = compiled(Path(self.root))
        except (OSError, subprocess.SubprocessError) as error:
            self.app.display_warning(f"oomph stays pure Python: {complaint(error)}")
            return
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
        for place, path in files.items():
            build_data["force_include"][str(path)] = place
