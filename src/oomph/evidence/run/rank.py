"""The records of one rank, read one at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from oomph.evidence.run.data import Doing, Outcome, RankData
from oomph.evidence.run.model import (
    End,
    Header,
    Note,
    Now,
    OomRecord,
    PhaseRecord,
    Record,
    StepRecord,
)
from oomph.evidence.run.records import Lines
from oomph.evidence.run.summary import GrowthSum, Kept, PhaseSums
from oomph.phases import Phase

#: What came next is taken for what would have come next when it did so at least so often, and nearly always.
_LEAST_SEEN = 2
_SHARE = 0.9
_MOST_NOTES = 2_000
_MOST_OOMS = 2_000
_MOST_HEADERS = 1_000

#: Says whether the process of a header lives: True, False, or None where nobody here can tell.
Alive = Callable[[Header], "bool | None"]


def line_key(record: Record) -> tuple[str, float]:
    """What a record is found by in `RankData.lines`."""
    return type(record).__name__, record.clock


class RankReader:
    """Takes the records of a rank in; `data` is what they say together."""

    def __init__(self, rank: int, keep: int) -> None:
        self.rank = rank
        self._headers: list[Header] = []
        self._phases: Kept[PhaseRecord] = Kept(keep)
        self._steps: Kept[StepRecord] = Kept(keep)
        self._ooms: list[OomRecord] = []
        self._notes: Kept[Note] = Kept(_MOST_NOTES)
        self._other_lines: dict[tuple[str, float], int] = {}
        self._sums = PhaseSums()
        self._attempts: list[Outcome] = []
        self._last_time: float | None = None
        self._last_clock: float | None = None
        self._begin()

    def _begin(self) -> None:
        """A new attempt: nothing of its end is known."""
        self._end: End | None = None
        self._growth = GrowthSum()
        self._rss: int | None = None
        self._completed = 0
        self._last: Record | None = None
        self._fatal: OomRecord | None = None
        self._raised: PhaseRecord | None = None
        self._ended = ""  # the phase that ended last, "step" for a step
        self._followed: dict[str, Counter[str]] = {}

    def read(self, lines: Lines[Record]) -> None:
        """Takes all of them in."""
        for record in lines.records():
            self._take(record, lines.number)

    def _take(self, record: Record, line: int) -> None:
        if isinstance(record, Header):
            if self._headers:
                self._attempts.append(self._outcome(False)[0])  # another process goes on
            if len(self._headers) < _MOST_HEADERS:
                self._headers.append(record)
            else:
                self._headers[-1] = record
            self._begin()
            self._other_lines[line_key(record)] = line
        elif isinstance(record, PhaseRecord):
            self._phase(record, line)
        elif isinstance(record, StepRecord):
            self._completed = max(self._completed, record.step + 1)
            self._fatal = self._raised = None
            self._steps.add(record, line)
            self._growth.add(record, self._rss)
            self._follow("step")
        elif isinstance(record, OomRecord):
            self._oom(record)
            self._other_lines[line_key(record)] = line
        elif isinstance(record, Note):
            self._notes.add(record, line)
        else:
            self._end = record
            self._other_lines[line_key(record)] = line
        self._last = record
        self._last_time, self._last_clock = record.time, record.clock

    def _oom(self, record: OomRecord) -> None:
        """A failed request is recorded again when more is known of it."""
        if self._ooms and self._ooms[-1].clock == record.clock:
            self._ooms[-1] = record
        elif len(self._ooms) < _MOST_OOMS:
            self._ooms.append(record)
        else:
            self._ooms[-1] = record
        self._fatal = None if record.caught else record

    def _phase(self, record: PhaseRecord, line: int) -> None:
        new = self._sums.add(record)
        self._phases.add(record, line, remarkable=new or bool(record.raised))
        if record.host is not None and record.host.rss_bytes is not None:
            self._rss = record.host.rss_bytes
        if record.raised:
            self._raised = self._raised or record  # the innermost ends first
        else:
            self._raised = None
        self._follow(record.phase.value)

    def _follow(self, now: str) -> None:
        if self._ended:
            followed = self._followed.get(self._ended)
            if followed is None:
                followed = self._followed[self._ended] = Counter()
            followed[now] += 1
        self._ended = now

    def _outcome(self, alive: bool | None) -> tuple[Outcome, str]:
        if self._end is not None:
            try:
                return Outcome(self._end.outcome), self._end.error
            except ValueError:
                return Outcome.UNKNOWN, f"its last record calls its outcome {self._end.outcome[:40]!r}"
        if self._fatal is not None and not alive:
            return Outcome.OOM, "a request failed, and nothing was recorded after it"
        if alive:
            return Outcome.RUNNING, "its process is alive"
        if alive is None:
            return Outcome.UNKNOWN, "its records do not end; nothing here tells whether its process is alive"
        return Outcome.KILLED, "its records stop without an end, and its process is gone"

    def data(self, alive: Alive, *, now: Now | None = None, damaged: int = 0, unknown: int = 0) -> RankData:
        """All of it. `alive` is asked only of a rank whose records have no end; `now` is what its file of that says."""
        if now is not None and self._headers and now.pid not in (0, self._headers[-1].pid):
            now = None  # an earlier attempt's
        if not self._headers and self._last is None:
            outcome, why = Outcome.UNKNOWN, "its file has no record that can be read"
        else:
            asked = alive(self._headers[-1]) if self._end is None and self._headers else None
            outcome, why = self._outcome(asked)
        return RankData(
            rank=self.rank,
            headers=tuple(self._headers),
            phases=self._phases.items(),
            steps=self._steps.items(),
            ooms=tuple(self._ooms),
            notes=self._notes.items(),
            end=self._end,
            outcome=outcome,
            why=why,
            doing=None if outcome is Outcome.COMPLETED else self._doing(now),
            now=now,
            attempts=(*self._attempts, outcome),
            summaries=self._sums.summaries(),
            growth=self._growth.growth(),
            steps_completed=self._completed,
            left_out=self._phases.left_out + self._steps.left_out,
            lines=self._lines(),
            damaged=damaged,
            unknown=unknown,
            last_time=self._last_time,
            last_clock=self._last_clock,
        )

    def _lines(self) -> dict[tuple[str, float], int]:
        """Where each record that is kept stands."""
        several = (self._phases.with_lines(), self._steps.with_lines(), self._notes.with_lines())
        return {**self._other_lines, **{line_key(one): line for kept in several for line, one in kept}}

    def _doing(self, now: Now | None) -> Doing | None:
        fatal, raised, last = self._fatal, self._raised, self._last
        if fatal is not None and fatal.phase is not Phase.UNKNOWN:
            return Doing(fatal.phase, fatal.step, True, "recorded when the request failed", fatal.where)
        if raised is not None:
            why = f"the phase was recorded as ended by {raised.raised}"
            return Doing(raised.phase, raised.step, True, why, raised.where)
        if now is not None and now.clock >= self._phase_clock():
            if not now.over:
                return Doing(now.phase, now.step, True, "recorded when it began", now.where)
            return self._next(now)
        if isinstance(last, Note) and last.phase is not Phase.UNKNOWN:
            return Doing(last.phase, last.step, True, "recorded in it by its last record")
        return self._next()

    def _phase_clock(self) -> float:
        """When the last phase ended that has a record."""
        last = self._phases.last
        return last.clock if last is not None else float("-inf")

    def _next(self, now: Now | None = None) -> Doing | None:
        """What followed, in earlier steps, on what ended last. `now` says that nothing had begun since."""
        if not self._ended:
            return None
        if now is not None:
            ended = f"step {now.step} had completed" if self._ended == "step" else f"{self._ended} had ended"
            why = f"{ended}, and nothing that is recorded had begun since"
            return Doing(Phase.UNKNOWN, now.step, True, why)
        step = self._steps_so_far()
        after = "a step" if self._ended == "step" else self._ended
        followed = self._followed.get(self._ended, Counter())
        total = sum(followed.values())
        for phase, times in followed.most_common(1):
            if phase != "step" and times >= _LEAST_SEEN and times >= _SHARE * total:
                why = f"{after} had ended, and {phase} followed on it {times} of {total} times before"
                return Doing(Phase(phase), step, False, why)
        return Doing(
            Phase.UNKNOWN, step, False, f"{after} had ended; what began after it left no record of its own"
        )

    def _steps_so_far(self) -> int:
        """The step that was on its way."""
        if isinstance(self._last, PhaseRecord):
            return self._last.step
        step, phase = self._steps.last, self._phases.last
        if self._ended == "step" and step is not None:
            return step.step + 1
        return phase.step if phase is not None else -1
