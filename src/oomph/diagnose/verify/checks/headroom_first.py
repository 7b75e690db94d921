"""`headroom-first`."""

from __future__ import annotations

from collections.abc import Iterable

from oomph.diagnose.verify.checks.headroom import Room, judged
from oomph.diagnose.verify.model import Answer, Status
from oomph.diagnose.verify.view import Asked, beside, capacity, listed, readable, why_not_readable
from oomph.evidence.run.data import RankData
from oomph.evidence.run.model import PhaseRecord
from oomph.phases import Phase

_BEFORE = (Phase.INIT, Phase.LOAD)


class HeadroomFirst:
    """Before the first step, when weights are loaded and nothing is computed yet, so much of the card was left as asked
    for. Fails by what was allocated then, passes by what was reserved; between the two it cannot be told."""

    name = "headroom-first"

    def ask(self, asked: Asked) -> Iterable[Answer]:
        """One answer."""
        amount = asked.settings.headroom_first or asked.settings.headroom
        rooms: list[Room] = []
        reasons: list[str] = []
        for rank in asked.run.ranks.values():
            room = _room(rank)
            if isinstance(room, str):
                reasons.append(room)
            else:
                rooms.append(room)
        if asked.run.missing:
            reasons.append(f"{listed(asked.run.missing)} left no records")
        if not asked.run.ranks:
            return [Answer(self.name, Status.UNKNOWN, "no rank left records")]
        return [judged(self.name, rooms, amount, asked.settings.headroom_of, reasons)]


def _room(rank: RankData) -> Room | str:
    """What was left when the first forward began; or why that is not known."""
    if not readable(rank):
        return why_not_readable(rank)
    whole = capacity(rank)
    if whole is None:
        return f"nothing says what the card of rank {rank.rank} has in all"
    ordered = sorted(rank.phases, key=lambda each: each.clock)
    place = next((at for at, one in enumerate(ordered) if one.phase not in _BEFORE), None)
    if place is None:
        early = rank.oom
        if early is not None and early.phase in _BEFORE:
            where = f"on rank {rank.rank} in {early.phase.value}"
            counters = early.counters
            return Room(
                rank.rank,
                early.phase,
                where,
                whole,
                counters.allocated_bytes,
                counters.reserved_bytes,
                0,
                True,
            )
        return f"no phase after loading was recorded on rank {rank.rank}"
    return _at(rank, ordered, place, whole)


def _at(rank: RankData, ordered: list[PhaseRecord], place: int, whole: int) -> Room:
    first = ordered[place]
    begun = first.clock - first.seconds
    where = f"on rank {rank.rank} before the first step"
    if place:
        before = ordered[place - 1].counters
        size, held = max(before.allocated_bytes, first.start_allocated_bytes), before.reserved_bytes
    else:
        # What was reserved when it began is not known: no more than at its peak.
        size, held = first.start_allocated_bytes, first.counters.peak_reserved_bytes
    return Room(rank.rank, None, where, whole, size, max(size, held), beside(rank, begun))
