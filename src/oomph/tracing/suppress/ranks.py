"""Processes that a script starts for its ranks: the traced rank's function runs here, and the others do not run."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any

from oomph.tracing.suppress import nested

if TYPE_CHECKING:
    from oomph.tracing.recorder.recorder import Recorder


def install(recorder: Recorder) -> None:
    """Replaces `torch.multiprocessing.spawn`, torch's elastic agent, and `Process` where it starts ranks."""
    ranks = _Ranks(recorder)
    patches = recorder.patches
    patches.when_imported("torch.multiprocessing.spawn", ranks.spawning)
    patches.when_imported("torch.multiprocessing", ranks.spawning)
    patches.when_imported("torch.distributed.run", lambda module: patches.wrap(module, "run", ranks.agent))
    patches.when_imported(
        "torch.distributed.launcher.api",
        lambda module: patches.wrap(module.elastic_launch, "__call__", ranks.elastic),
    )
    patches.wrap(multiprocessing.process.BaseProcess, "start", ranks.start)


class _Ranks:
    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.started: dict[Any, int] = {}

    def spawning(self, module: ModuleType) -> None:
        for name, wrapper in (("spawn", self.spawn), ("start_processes", self.spawn)):
            if callable(getattr(module, name, None)):
                self.recorder.patches.wrap(module, name, wrapper)

    def spawn(
        self,
        _: Callable[..., Any],
        fn: Callable[..., Any],
        args: tuple[Any, ...] = (),
        nprocs: int = 1,
        join: bool = True,
        *__: Any,
        **___: Any,
    ) -> Any:
        """As torch/multiprocessing/spawn.py: `fn(i, *args)` in process i."""
        local = self._local(nprocs)
        fn(local, *args)
        return None if join else _Ended()

    def _local(self, processes: int) -> int:
        """Which of so many processes is the traced one."""
        settings = self.recorder.settings
        if processes != settings.world and processes != settings.device_count:
            self.recorder.note(nested.processes_note(processes, settings.world))
        local = settings.rank % max(processes, 1)
        if processes > 1:
            self.recorder.note(
                f"Of the {processes} processes that the script starts, number {local} is traced."
            )
        return local

    def elastic(self, _: Callable[..., Any], launch: Any, *args: Any) -> dict[int, Any]:
        """As torch/distributed/launcher/api.py: the entry point with its arguments, in each process."""
        config = getattr(launch, "_config", None)
        local = self._local(int(getattr(config, "nproc_per_node", 1) or 1))
        entry = launch._entrypoint  # noqa: SLF001 - there is no public one
        variables = nested.rank_variables(self.recorder, self.recorder.settings.world)
        if callable(entry):
            os.environ.update(variables)
            return {local: entry(*args)}
        target = nested.training_target([entry, *map(str, args)])
        if target is not None:
            nested.run(self.recorder, target, {**os.environ, **variables})
        return {}

    def agent(self, _: Callable[..., Any], args: Any) -> None:
        """As torch/distributed/run.py: the script of these arguments."""
        words = ["python", *(["-m"] if args.module else []), args.training_script, *args.training_script_args]
        launcher = ["torchrun", f"--nnodes={args.nnodes}", f"--nproc_per_node={args.nproc_per_node}"]
        launched = nested.training_target([*launcher, *words[1:]])
        if launched is not None:
            code = nested.run(self.recorder, launched, dict(os.environ))
            if code:
                raise SystemExit(code)

    def _alone(self) -> bool:
        return max(self.recorder.settings.world, self.recorder.settings.device_count) == 1

    def start(self, original: Callable[..., Any], process: Any) -> None:
        """A process whose first argument counts up from 0 with each start of the same function is a rank."""
        target, args = process._target, process._args  # noqa: SLF001 - there is no public way to ask
        number = self.started.get(target, 0)
        counted = target is not None and bool(args) and type(args[0]) is int and args[0] == number
        if not counted or (self._alone() and _talks(args)):
            original(process)
            return
        self.started[target] = number + 1
        settings = self.recorder.settings
        self.recorder.note(
            "Of the processes that the script starts for its ranks, the traced one runs in this one."
        )
        _end(process)
        if number == settings.rank % max(settings.device_count, settings.world, 1):
            process.run()


def _talks(args: tuple[Any, ...]) -> bool:
    """Whether a process is given a queue or a pipe: a worker that somebody waits for."""
    return any(
        type(one).__module__.startswith(("multiprocessing.queues", "multiprocessing.connection"))
        for one in args
    )


def _end(process: Any) -> None:
    """Makes a process object one that has ended."""
    state: dict[str, Any] = {
        "join": lambda timeout=None: None,  # noqa: ARG005 - as the real one
        "is_alive": lambda: False,
        "terminate": lambda: None,
        "kill": lambda: None,
        "close": lambda: None,
    }
    process.__dict__.update(state)
    kind = type(process)
    process.__class__ = type(kind.__name__, (kind,), {"exitcode": 0, "pid": 0})


class _Ended:
    """What `spawn(join=False)` gives, with every process at its end."""

    processes: tuple[Any, ...] = ()

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:  # noqa: ARG002
        """All have ended."""
        return True

    def pids(self) -> list[int]:
        """None is left."""
        return []
