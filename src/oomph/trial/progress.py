"""How far a running trial has come, by what its ranks record: read as it grows, each line once."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from oomph.evidence.run.model import (
    RANKS,
    End,
    Header,
    OomRecord,
    PhaseRecord,
    Record,
    StepRecord,
)
from oomph.phases import Phase
from oomph.trial.goal import Goal

_RECORD: msgspec.json.Decoder[Record] = msgspec.json.Decoder(Record)
#: A rank whose request failed and that says nothing more for so long has not caught it: it hangs on its way out.
_STUCK_SECONDS = 20.0
_MOST_BLOCK = 16 << 20


@dataclass
class RankProgress:
    """One rank, of its last attempt. `passed`: how often a phase has ended, several pieces in a row counted once."""

    world_size: int = 1
    steps: int = 0
    passed: dict[Phase, int] = field(default_factory=dict)
    #: The phase that ended last: it may go on in another piece.
    last: Phase | None = None
    failed: OomRecord | None = None
    ended: str = ""
    heard: float = 0.0
    offset: int = 0
    rest: bytes = b""

    def take(self, record: Record) -> None:
        """A record, in the file's order."""
        if isinstance(record, Header):
            self.world_size, self.steps, self.passed, self.last = record.world_size, 0, {}, None
            self.failed, self.ended = None, ""
        elif isinstance(record, StepRecord):
            self.steps = max(self.steps, record.step + 1)
        elif isinstance(record, PhaseRecord):
            self._take_phase(record)
        elif isinstance(record, OomRecord):
            self.failed = None if record.caught else record
        elif isinstance(record, End):
            self._over(self.last)
            self.ended = record.outcome

    def _take_phase(self, record: PhaseRecord) -> None:
        if record.phase is not self.last:
            self._over(self.last)
        self.last = None if record.raised else record.phase
        if record.phase in (Phase.GENERATE, Phase.SAVE) and not record.raised:
            self._over(record.phase)
            self.last = None

    def _over(self, phase: Phase | None) -> None:
        if phase is not None:
            self.passed[phase] = self.passed.get(phase, 0) + 1
            self.last = None

    def reached(self, goal: Goal) -> bool:
        """Whether this rank has come as far as the goal."""
        if goal.end or self.failed is not None or self.steps < goal.steps:
            return False
        return goal.phase is None or self.passed.get(goal.phase, 0) >= goal.times


class Progress:
    """Reads ranks/*.jsonl below `run` as they grow."""

    def __init__(self, run: Path) -> None:
        self._folder = run / RANKS
        self.ranks: dict[str, RankProgress] = {}

    def look(self) -> None:
        """Reads what is new. Raises nothing: what cannot be read now is read later."""
        try:
            paths = sorted(self._folder.glob("rank-*.jsonl"))
        except OSError:
            return
        for path in paths:
            rank = self.ranks.setdefault(path.name, RankProgress(heard=time.monotonic()))
            self._read(path, rank)

    def _read(self, path: Path, rank: RankProgress) -> None:
        try:
            with path.open("rb") as file:
                file.seek(rank.offset)
                block = file.read(_MOST_BLOCK)
        except OSError:
            return
        if not block:
            return
        rank.offset += len(block)
        rank.heard = time.monotonic()
        *lines, rank.rest = (rank.rest + block).split(b"\n")
        for line in lines:
            try:
                rank.take(_RECORD.decode(line))
            except (msgspec.DecodeError, ValueError, RecursionError, OverflowError):
                continue  # torn, or of a newer oomph

    @property
    def out_of_memory(self) -> bool:
        """Whether a rank ran out of memory and will not go on."""
        now = time.monotonic()
        return any(
            # Without the message no exception was seen: the library that asked may do without.
            one.ended == "oom"
            or (one.failed is not None and one.failed.message and now - one.heard > _STUCK_SECONDS)
            for one in self.ranks.values()
        )

    def reached(self, goal: Goal) -> bool:
        """Whether every rank has come as far as the goal."""
        if goal.end or not self.ranks:
            return False
        world = max(one.world_size for one in self.ranks.values())
        return len(self.ranks) >= world and all(one.reached(goal) for one in self.ranks.values())

    @property
    def steps(self) -> int | None:
        """Optimizer steps that every rank has done; None where nothing is recorded."""
        return min((one.steps for one in self.ranks.values()), default=None)

    def times(self, phase: str) -> int:
        """How often a phase has ended on every rank."""
        return min(
            (sum(n for one, n in rank.passed.items() if one.value == phase) for rank in self.ranks.values()),
            default=0,
        )
