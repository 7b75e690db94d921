"""Tasks on a Ray cluster: one actor each, which runs the command under the supervisor, as the local engine does.

Ray gives an actor its GPUs (CUDA_VISIBLE_DEVICES) and never starts one a second time here. When the actor dies, with
its node, by `ray.kill` or because whoever asked for it died, the supervisor beside it ends the command.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import ray

from oomph.errors import OomphError, UsageError
from oomph.trial import supervise
from oomph.trial.engine import Finished, Task
from oomph.trial.engines.local import LocalEngine
from oomph.trial.engines.ray_cluster import RayCluster
from oomph.trial.engines.sharing import leave_word, missing_word

_TICK_SECONDS = 0.2
#: So long may an actor take to end its command; then it is ended itself.
_END_SECONDS = supervise.GRACE_SECONDS + supervise.KILL_SECONDS + 10.0


class _Runner:
    """The actor: runs one task on the node where Ray has put it. `stop` comes in another thread than `run`."""

    def __init__(self) -> None:
        self._stop = threading.Event()

    def ready(self) -> bool:
        """Answers once the actor has a place."""
        return True

    def run(self, task: Task, word: str) -> Finished:
        """The whole life of the task."""
        missing = missing_word(task, word)
        if missing:
            return Finished(task, None, "lost", missing)
        if self._stop.is_set():
            return Finished(task, None, "cancelled")
        engine = LocalEngine()
        try:
            engine.start(task)
            while True:
                ended = engine.finished(_TICK_SECONDS)
                if ended:
                    return ended[0]
                if self._stop.is_set():
                    engine.cancel(task)
        finally:
            engine.close()

    def stop(self) -> None:
        """Ends the task."""
        self._stop.set()


@dataclass
class _Running:
    task: Task
    actor: Any
    ready: Any
    result: Any
    began: float
    cancelled: float | None = None


class RayEngine:
    """Runs tasks on Ray, `slots` at a time.

    `address` names a cluster (default: $RAY_ADDRESS, else a cluster of this machine alone is started and ended with
    the engine). `cpus` is what a task takes of its node's CPU slots; its GPUs are the task's own number. Tasks that
    have no place yet wait in Ray's queue, without their time running.
    """

    name = "ray"

    def __init__(self, slots: int | str = 1, address: str | None = None, cpus: float | str = 1) -> None:
        self._slots = int(_number("slots", slots, least=1))
        self._cpus = _number("cpus", cpus, least=0)
        self._running: dict[str, _Running] = {}
        self._cluster = RayCluster(address)

    @property
    def slots(self) -> int:
        """How many tasks it runs side by side."""
        return self._slots

    def start(self, task: Task) -> None:
        """Hands a task to Ray. Raises OomphError where its folder takes no file, or a cluster of our own, which will
        not grow, has too few GPUs."""
        if self._cluster.own and task.gpus > self._cluster.most_gpus():
            raise OomphError(
                f"{task.name} needs {task.gpus} GPUs and Ray sees {self._cluster.most_gpus():g} on this machine; "
                "name a cluster with --engine-option address=."
            )
        word = leave_word(task, self.name)
        options = {
            "num_cpus": self._cpus,
            "num_gpus": task.gpus,
            "max_restarts": 0,
            "max_task_retries": 0,
            "max_concurrency": 2,
            "runtime_env": {"env_vars": {"RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}},
        }
        if self._cluster.own:
            del options["runtime_env"]  # it has the variable already
        try:
            actor = ray.remote(_Runner).options(**options).remote()
            ready, result = actor.ready.remote(), actor.run.remote(task, word)
        except (ray.exceptions.RayError, OSError, ValueError, ConnectionError) as error:
            raise OomphError(f"{task.name} cannot be handed to Ray: {_first(error)}.") from error
        self._running[task.name] = _Running(task, actor, ready, result, time.monotonic())

    def finished(self, timeout: float) -> Sequence[Finished]:
        """Tasks that have ended since the last call; waits at most `timeout` seconds for one."""
        until = time.monotonic() + timeout
        while self._running:
            self._press()
            left = max(0.0, until - time.monotonic())
            results = {one.result: one for one in self._running.values()}
            done, _ = ray.wait(list(results), num_returns=1, timeout=min(left, 1.0))
            if done:
                more, _ = ray.wait(list(results), num_returns=len(results), timeout=0)
                return [self._end(results[ref]) for ref in more]
            if left == 0.0:
                return []
        return []

    def cancel(self, task: Task) -> None:
        """Ends a task and everything that it started; it is `finished` as "cancelled" afterwards."""
        one = self._running.get(task.name)
        if one is None or one.cancelled is not None:
            return
        one.cancelled = time.monotonic()
        if ray.wait([one.ready], timeout=0)[0]:
            with contextlib.suppress(ray.exceptions.RayError):
                one.actor.stop.remote()
        else:
            ray.kill(one.actor)  # it has no place yet: nothing of it runs

    def close(self) -> None:
        """Ends what still runs, and waits until it is gone; then leaves the cluster."""
        for one in list(self._running.values()):
            self.cancel(one.task)
        while self._running:
            self.finished(1.0)
        self._cluster.close()

    def _press(self) -> None:
        """Ends actors that were told to stop long ago; their supervisors end what they ran."""
        for one in self._running.values():
            if one.cancelled is not None and time.monotonic() - one.cancelled > _END_SECONDS:
                ray.kill(one.actor)

    def _end(self, one: _Running) -> Finished:
        del self._running[one.task.name]
        try:
            ended: Finished = replace(ray.get(one.result), task=one.task)
        except ray.exceptions.OutOfMemoryError as error:
            # Ray's own guard of the node's main memory; nothing to do with a GPU.
            why = f"Ray ended it because its node ran out of main memory: {_first(error)}"
            ended = self._without_word(one, "memory", why)
        except ray.exceptions.RayError as error:
            ended = self._without_word(one, "lost", f"Ray lost it: {_reason(error)}")
        with contextlib.suppress(ray.exceptions.RayError):
            ray.kill(one.actor)
        if one.cancelled is not None:
            return replace(ended, stopped="cancelled")
        return ended

    def _without_word(self, one: _Running, stopped: str, why: str) -> Finished:
        return Finished(one.task, None, stopped, why, time.monotonic() - one.began)


def _number(name: str, value: float | str, *, least: int) -> float:
    try:
        number = float(value)
    except ValueError:
        number = -1.0
    if number < least:
        raise UsageError(f"--engine-option {name}={value}: a number from {least} on is needed.")
    return number


def _first(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0].rstrip(".")


def _reason(error: BaseException) -> str:
    """The line of Ray's text that says why; the others name the actor, and a worker's text goes on with advice."""
    lines = [line for line in str(error).splitlines() if line and not line.startswith((" ", "\t"))]
    said = [line for line in lines if " because " in line] or lines[-1:] or [type(error).__name__]
    return said[0].partition(" Some common causes")[0].strip().rstrip(".")
