"""Runs at the start of every Python process of a command that `oomph record` started: see the package above.

It runs the `sitecustomize` that it stands before, takes itself off `sys.path`, and waits for PyTorch: when that has
been imported, `oomph.auto` is, which records the process. Launchers and the workers of data loaders are left alone.
Nothing here may fail, and nothing may cost more than a millisecond: most processes of a job are none that train.
"""

from __future__ import annotations

import os
import sys

#: Programs that start the ranks, and import PyTorch without being one.
_LAUNCHERS = frozenset(
    (
        "torchrun",
        "torch.distributed.run",
        "torch.distributed.launch",
        "accelerate",
        "accelerate-launch",
        "accelerate.commands.launch",
        "accelerate.commands.accelerate_cli",
        "deepspeed",
        "deepspeed.launcher.runner",
        "deepspeed.launcher.launch",
        "ray",
        "pip",
        "tensorboard",
    )
)


def _chain() -> None:
    """Runs the `sitecustomize` that would have run without this one."""
    mine = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - pathlib takes a millisecond to import
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != mine or not entry]  # noqa: PTH100
    this = sys.modules.pop("sitecustomize", None)
    try:
        import sitecustomize  # type: ignore[import-not-found] # noqa: F401
    except ImportError as error:
        if error.name != "sitecustomize":
            raise
        if this is not None:
            sys.modules["sitecustomize"] = this


def _is_rank() -> bool:
    """Whether this process may be one that trains."""
    words = list(getattr(sys, "orig_argv", sys.argv))
    if any("multiprocessing" in word and "import" in word for word in words):
        return False  # a worker of multiprocessing: spawn_main, forkserver, resource_tracker
    for index, word in enumerate(words[1:], 1):
        if word == "-m":
            return (words[index + 1] if index + 1 < len(words) else "") not in _LAUNCHERS
        if word == "-c":
            return True
        if not word.startswith("-"):
            name = os.path.basename(word)  # noqa: PTH119
            return (name[:-3] if name.endswith(".py") else name) not in _LAUNCHERS
    return True


def _start() -> None:
    """PyTorch is there: this process records itself, if it can."""
    if not os.environ.get("OOMPH_RUN_DIR") or os.environ.get("OOMPH_AUTO") == "0" or not _is_rank():
        return
    try:
        import oomph.auto  # noqa: F401
    except Exception as error:  # noqa: BLE001 - the job comes first
        if os.environ.get("OOMPH_AUTO") in ("1", "phases"):
            sys.stderr.write(f"oomph: this process is not recorded ({type(error).__name__}: {error})\n")


class _Waiting:
    """A finder that finds nothing, but notices the import of PyTorch."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> object:
        """Nothing, except for PyTorch: what the other finders say, with `_start` behind its execution."""
        if name != "torch":
            return None
        try:
            sys.meta_path.remove(self)  # type: ignore[arg-type]
        except ValueError:
            return None
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            spec = find(name, path, target) if find is not None else None
            if spec is None:
                continue
            loader = spec.loader
            try:
                execute = loader.exec_module
                loader.exec_module = _then_start(loader, execute)
            except AttributeError:
                pass  # a loader of another kind: PyTorch is imported without us
            return spec
        return None


def _then_start(loader: object, execute: object) -> object:
    def exec_module(module: object) -> None:
        del loader.exec_module  # type: ignore[attr-defined]
        execute(module)  # type: ignore[operator]
        _start()

    return exec_module


if os.environ.get("OOMPH_RUN_DIR"):
    sys.meta_path.insert(0, _Waiting())  # type: ignore[arg-type]
_chain()
