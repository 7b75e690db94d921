"""What a plan says of the values of a variable: it orders trials, and is corrected by what they measure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec.structs import replace

from oomph.errors import UsageError
from oomph.trial.guess import Planned
from oomph.trial.model import Value, Variable

if TYPE_CHECKING:
    from oomph.job.model import Job

_EVALUATION = re.compile(r"eval|valid|test", re.IGNORECASE)
_BATCH = re.compile(r"batch|(?:^|[_.-])(?:b|bs|bsz|mbs)(?:$|[_.-])", re.IGNORECASE)
_LENGTH = re.compile(r"seq|len|ctx|context|block_?size|tokens", re.IGNORECASE)


def planned_by(job: Job) -> Planned:
    """The highest allocated bytes that are predicted for a setting, by the batch and the length in it."""
    from oomph.remedy.room import quickly

    cache: dict[tuple[int | None, int | None], int | None] = {}

    def planned(variable: Variable, value: Value, setting: Mapping[str, Value]) -> int | None:
        if _part(variable.name) is None:
            return None
        batch = length = None
        for name, each in {**setting, variable.name: value}.items():
            if isinstance(each, int) and _part(name) == "batch":
                batch = each
            elif isinstance(each, int) and _part(name) == "length":
                length = each
        if (batch, length) not in cache:
            try:
                cache[batch, length] = quickly(_with(job, batch, length))
            except UsageError:
                cache[batch, length] = None  # not modelled, or longer than the model can
        return cache[batch, length]

    return planned


def _part(name: str) -> str | None:
    if _EVALUATION.search(name):
        return None
    if _BATCH.search(name):
        return "batch"
    return "length" if _LENGTH.search(name) else None


def _with(job: Job, batch: int | None, length: int | None) -> Job:
    given = job.batch
    if batch is not None:
        given = replace(given, micro=batch)
    if length is not None:
        given = replace(given, sequence=length)
    return replace(job, batch=given)
