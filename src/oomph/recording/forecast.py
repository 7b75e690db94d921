"""Warns of peaks that are still to come, once for the run, on behalf of all ranks; and of processes that appear."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from oomph.evidence.run.model import Note, StepRecord
from oomph.phases import Phase
from oomph.recording.batch import main_shape
from oomph.recording.troubles import say
from oomph.recording.warning import Coming, Projection, Seen, project
from oomph.recording.writer import create_once

if TYPE_CHECKING:
    from oomph.recording.recorder import Recording

_MOST_STEPS = 2_000
CLAIMS = "claims"
#: A bound so much above what was seen says nothing about the data.
_FAR = 8


class Forecast:
    """Looks at the steps of one rank from the recorder's own thread."""

    def __init__(
        self, recording: Recording, model: object, longest: int, evaluation: int, total_steps: int
    ) -> None:
        self._recording = recording
        self._seen: deque[Seen] = deque(maxlen=_MOST_STEPS)
        self._told: set[str] = set()
        self._looked_at = 0
        self.longest = longest
        self.bound = "the longest that the data has" if longest else ""
        self.evaluation = evaluation
        self.total_steps = total_steps
        self.result_bytes = 0
        self._guess = (0, "")
        self._sizes = sizes_of(model)

    def model(self, model: object) -> None:
        """The model, where it comes later than the recording."""
        self._sizes = sizes_of(model)

    def guess_longest(self, longest: int, bound: str) -> None:
        """A length that nothing is longer than, though nothing need be as long: believed where lengths differ."""
        self._guess = (longest, bound)

    def _longest(self) -> tuple[int, str]:
        if self.longest or not self._guess[0]:
            return self.longest, self.bound
        lengths = {one.length for one in tuple(self._seen)}  # the training thread appends meanwhile
        longest, bound = self._guess
        if len(lengths) < 2 or longest > _FAR * max(lengths):
            return 0, ""
        return longest, bound

    def step(self, record: StepRecord) -> None:
        """A step has completed. Called in the training thread: it only takes down numbers."""
        shape = main_shape(record.batch)
        rows = shape[0] if shape else 0
        length = shape[1] if len(shape) > 1 else 1
        phases = self._recording.phases
        self._seen.append(
            Seen(
                step=record.step,
                stays_bytes=record.counters.allocated_bytes,
                peak_bytes=record.counters.peak_allocated_bytes,
                rows=rows,
                length=length if shape else 0,
                forward_growth_bytes=phases.forward_growth_bytes,
            )
        )

    def look(self) -> None:
        """Projects what comes, and warns."""
        if len(self._seen) == self._looked_at:
            return
        self._looked_at = len(self._seen)
        counters = self._recording.phases.card
        if counters is None or not counters.total_bytes:
            return
        capacity = (
            counters.total_bytes - (counters.outside_bytes or 0) - (counters.other_processes_bytes or 0)
        )
        full, local, gradients = self._sizes
        phases = self._recording.phases
        longest, bound = self._longest()
        coming = Coming(
            capacity_bytes=capacity,
            longest=longest,
            bound=bound,
            evaluation_rows=0 if Phase.EVAL in phases.occurred else self.evaluation,
            result_bytes=self.result_bytes,
            gradient_bytes=gradients,
            full_bytes=full,
            local_bytes=local,
            saves=Phase.SAVE not in phases.occurred,
            total_steps=self.total_steps,
        )
        for projection in project(tuple(self._seen), coming):
            if projection.code not in self._told:
                self._told.add(projection.code)
                self._warn(projection)

    def _warn(self, projection: Projection) -> None:
        recording = self._recording
        now = recording.phases.current()
        first = claim(recording, projection.code)
        recording.add_note(
            Note(
                projection.code,
                projection.text,
                time.time(),
                time.monotonic(),
                phase=now.phase,
                step=now.step,
                numbers={"low_bytes": projection.low_bytes, "high_bytes": projection.high_bytes},
            )
        )
        if first:
            whose = f"rank {recording.rank.rank}: " if recording.rank.world_size > 1 else ""
            say(f"may run out of memory later: {whose}{projection.text}")


def claim(recording: Recording, what: str) -> bool:
    """Whether this rank is the first of the run to say it. Without a shared folder, rank 0 is."""
    if recording.directory is None:
        return recording.rank.rank == 0
    try:
        rank = f"{recording.rank.rank}\n".encode()
        return create_once(recording.directory / CLAIMS / f"{what}-{recording.rank.attempt}", rank)
    except OSError:
        return recording.rank.rank == 0


def sizes_of(model: object) -> tuple[int, int, int]:
    """Bytes of all parameters whole, of this rank's part of them, and of this rank's gradients; 0 where unknown."""
    full = local = gradients = 0
    seen: set[int] = set()
    models = (
        model.values()
        if isinstance(model, Mapping)
        else model
        if isinstance(model, (list, tuple))
        else (model,)
    )
    try:
        for one in models:
            for parameter in one.parameters() if hasattr(one, "parameters") else ():
                if id(parameter) in seen:
                    continue
                seen.add(id(parameter))
                size = parameter.numel() * parameter.element_size()
                part = _local(parameter)
                full += size
                local += part
                gradients += part if parameter.requires_grad else 0
    except Exception:  # noqa: BLE001 - parameters that are not there yet (lazy ones, meta ones of other libraries)
        return 0, 0, 0
    return full, local, gradients


def _local(parameter: Any) -> int:
    inner = getattr(parameter, "_local_tensor", None)
    part = parameter if inner is None else inner
    return int(part.numel() * part.element_size())
