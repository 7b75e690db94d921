"""`evaluation`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from oomph.diagnose.verify.checks.headroom import judged
from oomph.diagnose.verify.checks.headroom_peak import room_of
from oomph.diagnose.verify.model import Answer, Status
from oomph.diagnose.verify.view import Asked, highest, peaks, unjudged
from oomph.phases import Phase
from oomph.units import format_bytes

_EVALUATES = (Phase.EVAL, Phase.GENERATE)


class Evaluation:
    """Evaluation (and generation), which a job reaches late, was recorded and left as much of the card at its peak as
    is asked for. Judged as `headroom` is, in those phases alone. Skipped where no evaluation was recorded: choose it by
    name (--select evaluation) to have that failed."""

    name = "evaluation"

    def ask(self, asked: Asked) -> Iterable[Answer]:
        """One answer."""
        ranks = asked.run.ranks.values()
        phases = {one.phase for rank in ranks for one in rank.phases}
        phases |= {oom.phase for rank in ranks for oom in rank.ooms}
        if not phases.intersection(_EVALUATES):
            return [self._none(asked)]
        rooms, reasons = [], unjudged(asked.run)
        for rank in ranks:
            room = room_of(rank, _EVALUATES)
            if isinstance(room, str):
                reasons.append(room)
            else:
                rooms.append(room)
        answer = judged(self.name, rooms, asked.settings.headroom, asked.settings.headroom_of, reasons)
        training = highest(
            seen for rank in ranks for seen in peaks(rank, "allocated") if seen.phase not in _EVALUATES
        )
        if training is None or "allocated_bytes" not in answer.numbers:
            return [answer]
        most = format_bytes(training.size_bytes)
        numbers = {**answer.numbers, "training_bytes": training.size_bytes}
        return [replace(answer, text=f"{answer.text} (training allocated at most {most})", numbers=numbers)]

    def _none(self, asked: Asked) -> Answer:
        """What is said of a run without an evaluation: it matters to whoever asked for it by name."""
        if self.name not in asked.settings.select:
            return Answer(self.name, Status.SKIPPED, "no evaluation was recorded")
        open_ends = unjudged(asked.run)
        status = Status.UNKNOWN if open_ends else Status.FAILED
        told = f"; {open_ends[0]}" if open_ends else ""
        return Answer(self.name, status, f"no evaluation was recorded{told}")
