"""`retries`."""

from __future__ import annotations

from collections.abc import Iterable

from oomph.diagnose.verify.model import Answer, Status
from oomph.diagnose.verify.view import (
    Asked,
    because,
    moment,
    readable,
    readings,
    unjudged,
    why_not_readable,
)
from oomph.evidence.run.data import RankData
from oomph.phases import Phase


class Retries:
    """PyTorch never had to give its cache back to serve a request (num_alloc_retries stayed 0, or as low as allowed).
    Each such retry stalls the device, and the next one may fail."""

    name = "retries"

    def ask(self, asked: Asked) -> Iterable[Answer]:
        """One answer."""
        allowed = asked.settings.retries
        counted = [(_most(rank), rank) for rank in asked.run.ranks.values()]
        worst = max(counted, key=lambda each: each[0], default=None)
        if worst is not None and worst[0] > allowed:
            count, rank = worst
            first = _first(rank, allowed)
            where = "" if first is None else f", first {moment(*first)}"
            text = f"{_times(count)} on rank {rank.rank}{where}; allowed are {allowed}"
            phase = None if first is None else first[0]
            return [Answer(self.name, Status.FAILED, text, "", rank.rank, phase, {"retries_count": count})]
        reasons = unjudged(asked.run)
        reasons += [why_not_readable(rank) for rank in asked.run.ranks.values() if not readable(rank)]
        most = 0 if worst is None else worst[0]
        numbers = {"retries_count": float(most)}
        if reasons:
            text = because(reasons) if worst is None else f"{because(reasons)}; up to then {_times(most)}"
            return [Answer(self.name, Status.UNKNOWN, text, numbers=numbers)]
        return [Answer(self.name, Status.PASSED, f"{_times(most)} on any rank", numbers=numbers)]


def _most(rank: RankData) -> int:
    summed = [
        its.retries
        for summary in rank.summaries.values()
        for its in (summary.first, summary.later)
        if its is not None
    ]
    return max([*summed, *(each.retries for _, _, _, each in readings(rank))], default=0)


def _first(rank: RankData, allowed: int) -> tuple[Phase, int] | None:
    return next((each[1:3] for each in readings(rank) if each[3].retries > allowed), None)


def _times(count: int) -> str:
    return "no retry" if not count else f"{count:,} {'retry' if count == 1 else 'retries'}"
