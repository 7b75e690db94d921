"""`--engine`, `--jobs` and `--engine-option` of commands that read many files: the engine that they ask for."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from oomph.errors import UsageError

if TYPE_CHECKING:
    from oomph.trial.engine import Engine

#: Tasks at once, where machines other than this one have a part in it and nobody says how many.
_FAR_JOBS = 8


class Asked(Protocol):
    """The part of a command's request that this is about."""

    @property
    def engine(self) -> str | None: ...
    @property
    def jobs(self) -> int | None: ...
    @property
    def engine_options(self) -> tuple[str, ...]: ...


def engine_options(given: Sequence[str]) -> dict[str, Any]:
    """KEY=VALUE words as an engine's options. Raises UsageError."""
    options: dict[str, Any] = {}
    for text in given:
        key, equals, value = text.partition("=")
        if not equals or not key.isidentifier() or key == "slots":
            raise UsageError(f"--engine-option {text[:60]!r}: give KEY=VALUE, as docs/engines.md has them.")
        options[key] = value
    return options


@contextmanager
def asked_engine(asked: Asked) -> Iterator[Engine | None]:
    """The engine that a command's files are to be read by; None where nobody asked for one. Closed afterwards. Raises
    UsageError for one that is not installed."""
    if asked.engine is None and asked.jobs is None:
        if asked.engine_options:
            raise UsageError("--engine-option needs --engine slurm or --engine ray.")
        yield None
        return
    from oomph.trial.engines.registry import make_engine

    name = asked.engine or "local"
    jobs = asked.jobs or (_cpus() if name == "local" else _FAR_JOBS)
    engine = make_engine(name, slots=jobs, **engine_options(asked.engine_options))
    try:
        yield engine
    finally:
        engine.close()


def _cpus() -> int:
    """How many CPUs this process may use."""
    affinity: Callable[[int], set[int]] | None = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1
