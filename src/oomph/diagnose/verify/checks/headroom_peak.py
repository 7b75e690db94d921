"""`headroom`."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from oomph.diagnose.verify.checks.headroom import Room, judged
from oomph.diagnose.verify.model import Answer, Status
from oomph.diagnose.verify.view import (
    Asked,
    beside,
    capacity,
    highest,
    moment,
    peaks,
    readable,
    searched,
    unjudged,
    why_not_readable,
)
from oomph.evidence.run.data import RankData
from oomph.evidence.run.model import OomRecord
from oomph.phases import Phase
from oomph.units import format_bytes


class Headroom:
    """At the highest peak of the run, so much of the card was left as asked for. Fails where a request failed (unless
    it was caught in a search for a batch that fits, before the first step), or by what was allocated; passes by what
    was reserved; between the two, and for a run that did not end in order, it cannot be told."""

    name = "headroom"

    def ask(self, asked: Asked) -> Iterable[Answer]:
        """One answer."""
        if not asked.run.ranks and asked.run.gpus:
            return [from_outside(self.name, asked)]
        reasons = unjudged(asked.run)
        rooms: list[Room] = []
        for rank in asked.run.ranks.values():
            room = room_of(rank, tuple(Phase))
            if isinstance(room, str):
                reasons.append(room)
            else:
                rooms.append(room)
        return [judged(self.name, rooms, asked.settings.headroom, asked.settings.headroom_of, reasons)]


def from_outside(check: str, asked: Asked) -> Answer:
    """What samples of the cards say where no rank recorded (`oomph record` around a script that does not). Between two
    samples more may have been taken: so they can only fail, and only where what is reserved counts."""
    seen = [
        (gpu.free_bytes, gpu.capacity_bytes, gpu.index, host)
        for host, samples in asked.run.gpus.items()
        for sample in samples
        for gpu in sample.gpus
        if gpu.free_bytes is not None and gpu.capacity_bytes and any(each.ours for each in gpu.processes)
    ]
    least = min(seen, key=lambda each: each[0] - asked.settings.headroom.of(each[1]), default=None)
    if least is None:
        return Answer(check, Status.UNKNOWN, "no rank left records, and no sample shows the job on a GPU")
    free, whole, index, host = least
    wanted = asked.settings.headroom.of(whole)
    text = (
        f"no rank left records; of the samples from outside, the fullest has {format_bytes(free)} free on GPU {index} "
        f"of {host}; asked for are {format_bytes(wanted)} of {format_bytes(whole)}"
    )
    failed = asked.settings.headroom_of == "reserved" and free < wanted
    numbers: dict[str, float] = {"free_bytes": free, "capacity_bytes": whole, "wanted_bytes": wanted}
    return Answer(check, Status.FAILED if failed else Status.UNKNOWN, text, numbers=numbers)


def room_of(rank: RankData, phases: Collection[Phase]) -> Room | str:
    """What one rank's card had left at the highest peak of these phases; or why that is not known."""
    if not readable(rank):
        return why_not_readable(rank)
    whole = capacity(rank)
    if whole is None:
        return f"nothing says what the card of rank {rank.rank} has in all"
    search = searched(rank)
    failed = [
        oom for oom in rank.ooms if oom.phase in phases and (search is None or oom.clock > search.clock)
    ]
    if failed:
        return _at_failure(rank, failed[-1], whole)
    seen = highest(each for each in peaks(rank, "allocated") if each.phase in phases and not each.needed)
    held = highest(each for each in peaks(rank, "reserved") if each.phase in phases and not each.needed)
    if seen is None or held is None:
        return f"no such phase of rank {rank.rank} was recorded"
    if search is not None and rank.left_out:
        return f"rank {rank.rank} searched for a batch that fits, and not all of its later records were kept"
    most = max(held.size_bytes, seen.size_bytes)
    return Room(rank.rank, seen.phase, seen.place, whole, seen.size_bytes, most, beside(rank))


def _at_failure(rank: RankData, oom: OomRecord, whole: int) -> Room:
    place = f"on rank {rank.rank} {moment(oom.phase, oom.step)}"
    its = oom.counters
    size, held = its.allocated_bytes, its.reserved_bytes
    return Room(rank.rank, oom.phase, place, whole, size, held, beside(rank), failed=True)
