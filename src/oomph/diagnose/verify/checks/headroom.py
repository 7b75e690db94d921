"""What of the card was left, in general. `headroom-first` and `headroom` ask it at their moments."""

from __future__ import annotations

from dataclasses import dataclass

from oomph.diagnose.verify.model import Answer, Status
from oomph.diagnose.verify.settings import Amount, HeadroomOf
from oomph.diagnose.verify.view import because
from oomph.phases import Phase
from oomph.units import format_bytes


@dataclass(frozen=True)
class Room:
    """One rank at one moment, in bytes. `beside`: what others had of the card (None: never read, and then what is left
    is less than it seems). `failed`: a request failed there."""

    rank: int
    phase: Phase | None
    place: str
    capacity: int
    allocated: int
    reserved: int
    beside: int | None
    failed: bool = False

    @property
    def by_reserved(self) -> int:
        """What the card had left: cached memory counts as taken."""
        return self.capacity - self.reserved - (self.beside or 0)

    @property
    def by_allocated(self) -> int:
        """What the card had left at best: as if every byte of the cache could be used for anything."""
        return self.capacity - self.allocated - (self.beside or 0)

    def numbers(self, wanted: int) -> dict[str, float]:
        """The numbers of an answer."""
        found = {
            "capacity_bytes": self.capacity,
            "allocated_bytes": self.allocated,
            "reserved_bytes": self.reserved,
            "wanted_bytes": wanted,
            "left_by_reserved_bytes": self.by_reserved,
            "left_by_allocated_bytes": self.by_allocated,
        }
        if self.beside is not None:
            found["beside_bytes"] = self.beside
        return dict(found)


def judged(check: str, rooms: list[Room], amount: Amount, counted: HeadroomOf, reasons: list[str]) -> Answer:
    """The answer for the ranks' rooms, of which the worst decides. `reasons`: why more may have happened."""
    if not rooms:
        return Answer(check, Status.UNKNOWN, because(reasons) or "nothing was recorded at that moment")
    tight = [room for room in rooms if _status(room, amount, counted) is Status.FAILED]
    if tight:
        room = min(tight, key=lambda each: each.by_allocated - amount.of(each.capacity))
        return _answer(check, Status.FAILED, room, amount, _left(room, counted))
    blind = [room for room in rooms if _status(room, amount, counted) is Status.UNKNOWN]
    worst = min(rooms, key=lambda each: _counted(each, counted) - amount.of(each.capacity))
    if blind:
        room = min(blind, key=lambda each: each.by_reserved)
        return _answer(check, Status.UNKNOWN, room, amount, _why_open(room))
    if reasons:
        text = f"{because(reasons)}; up to then {_left(worst, counted)}"
        return _answer(check, Status.UNKNOWN, worst, amount, text)
    return _answer(check, Status.PASSED, worst, amount, _left(worst, counted))


def _counted(room: Room, counted: HeadroomOf) -> int:
    return room.by_allocated if counted == "allocated" else room.by_reserved


def _status(room: Room, amount: Amount, counted: HeadroomOf) -> Status:
    """Passed by what is reserved, failed by what is allocated, and open in between (or as `counted` says)."""
    wanted = amount.of(room.capacity)
    fails = room.by_reserved if counted == "reserved" else room.by_allocated
    if room.failed or fails < wanted:
        return Status.FAILED
    if room.beside is None or _counted(room, counted) < wanted:
        return Status.UNKNOWN
    return Status.PASSED


def _left(room: Room, counted: HeadroomOf) -> str:
    if room.failed:
        return f"a request failed {room.place}: nothing was left for it"
    left = _counted(room, counted)
    if counted == "both" and room.by_reserved != room.by_allocated:
        least, most = format_bytes(room.by_reserved), format_bytes(room.by_allocated)
        return f"{least} were left {room.place} ({most} with what the allocator had cached)"
    return f"{format_bytes(left)} were left {room.place}"


def _why_open(room: Room) -> str:
    if room.beside is None:
        return (
            f"what else was on the card of rank {room.rank} was never read; at most "
            f"{format_bytes(room.by_allocated)} were left {room.place}"
        )
    cached = format_bytes(room.reserved - room.allocated)
    return (
        f"{format_bytes(room.by_reserved)} were left {room.place}, and {format_bytes(room.by_allocated)} with the "
        f"{cached} that were cached: whether those can serve other sizes is not known (headroom_of decides)"
    )


def _answer(check: str, status: Status, room: Room, amount: Amount, text: str) -> Answer:
    wanted = amount.of(room.capacity)
    share = f", {amount}" if amount.percent is not None else ""
    asked = f"asked for are {format_bytes(wanted)} of {format_bytes(room.capacity)}{share}"
    return Answer(
        check, status, f"{text}; {asked}", rank=room.rank, phase=room.phase, numbers=room.numbers(wanted)
    )
