"""`first-step`."""

from __future__ import annotations

from collections.abc import Iterable

from oomph.diagnose.verify.model import Answer, Status
from oomph.diagnose.verify.view import Asked, because, ended, listed, settled
from oomph.evidence.run.data import Outcome, RankData
from oomph.phases import Phase


class FirstStep:
    """The first optimizer step was completed on every rank. Fails for a rank that ran out of memory or ended with an
    exception before; one that was killed, or that shows no step for another reason, cannot be told."""

    name = "first-step"

    def ask(self, asked: Asked) -> Iterable[Answer]:
        """One answer."""
        run = asked.run
        without = [rank for rank in run.ranks.values() if not rank.steps_completed and not rank.steps]
        failed = [rank for rank in without if _proved(rank)]
        if failed:
            worst = failed[0]
            more = f" (and {len(failed) - 1} more ranks)" if len(failed) > 1 else ""
            text = f"rank {worst.rank} {ended(worst)}, before its first optimizer step was complete{more}"
            phase = worst.doing.phase if worst.doing else None
            return [Answer(self.name, Status.FAILED, text, rank=worst.rank, phase=phase)]
        reasons = [_open(rank) for rank in without]
        if run.missing:
            reasons.append(f"{listed(run.missing)} left no records")
        if not run.ranks:
            reasons.append("no rank left records")
        if reasons:
            return [Answer(self.name, Status.UNKNOWN, because(reasons))]
        count = len(run.ranks)
        where = f"all {count} ranks" if count > 1 else f"rank {next(iter(run.ranks))}"
        least = min(max(rank.steps_completed, len(rank.steps)) for rank in run.ranks.values())
        text = f"{where} completed it ({least:,} {'step' if least == 1 else 'steps'} in all)"
        return [Answer(self.name, Status.PASSED, text, numbers={"least_steps": least})]


def _proved(rank: RankData) -> bool:
    """Whether no step can have been completed: the rank itself wrote how it ended, and its phases do not repeat as they
    would in steps that nobody recorded."""
    ended_itself = rank.outcome in (Outcome.OOM, Outcome.EXCEPTION)
    backwards = sum(one.phase is Phase.BACKWARD and not one.raised for one in rank.phases)
    return ended_itself and backwards <= 1


def _open(rank: RankData) -> str:
    if settled(rank):
        how = "completed" if rank.outcome is Outcome.COMPLETED else "was interrupted"
        return (
            f"rank {rank.rank} {how} without a recorded optimizer step (evaluation only, or an optimizer that the "
            "recorder does not see)"
        )
    if rank.outcome in (Outcome.OOM, Outcome.EXCEPTION):
        return f"rank {rank.rank} {ended(rank)}; its phases repeat, but no optimizer step was recorded"
    return f"rank {rank.rank} {ended(rank)}, and no optimizer step of it was recorded"
