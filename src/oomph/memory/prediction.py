"""What a job is predicted to need on one device: per phase, with what is not certain, and whether it fits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from oomph.phases import Phase


@dataclass(frozen=True)
class Peak:
    """The most of one phase, in bytes.

    `allocated_bytes` and `reserved_bytes` are the prediction under the likeliest order of addresses;
    `reserved_low_bytes` to `reserved_high_bytes` is what other orders give (memory/replay/orders.py).
    `uncertain_bytes` is what may come on top of any of them: kernels of which nothing exact is known. Reserved bytes
    of a phase include what was cached before it. `allocated_low_bytes` to `allocated_high_bytes` is the same for
    allocated bytes, which differ less (None: the same in all orders).
    """

    allocated_bytes: int
    reserved_bytes: int
    reserved_low_bytes: int
    reserved_high_bytes: int
    uncertain_bytes: int = 0
    allocated_low_bytes: int | None = None
    allocated_high_bytes: int | None = None

    def __post_init__(self) -> None:
        """Raises ValueError for an interval that does not hold its own prediction, and for sizes below 0."""
        if not _low(self) <= self.allocated_bytes <= _high(self):
            raise ValueError("The allocated bytes do not lie between their low and their high end.")
        if not 0 <= self.reserved_low_bytes <= self.reserved_bytes <= self.reserved_high_bytes:
            raise ValueError("The reserved bytes do not lie between their low and their high end.")
        if self.allocated_bytes < 0 or self.uncertain_bytes < 0:
            raise ValueError("A size is below 0.")

    @property
    def most_bytes(self) -> int:
        """The upper end: what has to be there for the phase to be safe."""
        return self.reserved_high_bytes + self.uncertain_bytes

    @classmethod
    def of(cls, allocated: Iterable[int], reserved: Iterable[int], uncertain_bytes: int = 0) -> Peak:
        """From the bytes under several orders, the likeliest first (`allocated` and `values` of replay.orders.Orders).

        Raises ValueError when there is none.
        """
        used, held = tuple(allocated), tuple(reserved)
        if not used or not held:
            raise ValueError("A peak needs the bytes of at least one order.")
        return cls(
            allocated_bytes=used[0],
            reserved_bytes=held[0],
            reserved_low_bytes=min(held),
            reserved_high_bytes=max(held),
            uncertain_bytes=uncertain_bytes,
            allocated_low_bytes=min(used),
            allocated_high_bytes=max(used),
        )


def highest(peaks: Iterable[Peak]) -> Peak:
    """Each number at its highest, so that the whole is no lower than any part; zeros when there are no peaks."""
    known = list(peaks)
    if not known:
        return Peak(0, 0, 0, 0)
    high = max(peak.reserved_high_bytes for peak in known)
    # What is uncertain in a low phase does not lift the peak of a high one.
    most = max(peak.most_bytes for peak in known)
    return Peak(
        allocated_bytes=max(peak.allocated_bytes for peak in known),
        reserved_bytes=max(peak.reserved_bytes for peak in known),
        reserved_low_bytes=max(peak.reserved_low_bytes for peak in known),
        reserved_high_bytes=high,
        uncertain_bytes=most - high,
        allocated_low_bytes=max(_low(peak) for peak in known),
        allocated_high_bytes=max(_high(peak) for peak in known),
    )


def _low(peak: Peak) -> int:
    return peak.allocated_bytes if peak.allocated_low_bytes is None else peak.allocated_low_bytes


def _high(peak: Peak) -> int:
    return peak.allocated_bytes if peak.allocated_high_bytes is None else peak.allocated_high_bytes


@dataclass(frozen=True)
class Prediction:
    """One device of one rank.

    `phases` in the order in which the job first enters them; `peak` is the most of all. `capacity_bytes` is what
    PyTorch can reserve in all, at the least (None: not known). `fits` is True only when the upper end fits, and None
    when the capacity is not known. `fails_in`: the first phase in which memory runs out, or may. Of `orders_played`
    orders of addresses that were played with that capacity, `orders_failed` ran out: where it is some of them only,
    the job may or may not fit. `assumptions` say what stood in for unknown values, `notes` what else a reader must
    know. `judged` makes one.
    """

    rank: int
    device: int
    phases: Mapping[Phase, Peak]
    peak: Peak
    capacity_bytes: int | None = None
    fits: bool | None = None
    fails_in: Phase | None = None
    orders_played: int = 0
    orders_failed: int = 0
    assumptions: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Raises ValueError for a verdict that contradicts itself."""
        if self.fits and (self.fails_in is not None or self.orders_failed):
            raise ValueError("What fits fails nowhere.")
        if self.fits is not None and self.capacity_bytes is None:
            raise ValueError("Without a capacity nothing is known to fit, or not to.")

    @classmethod
    def judged(
        cls,
        rank: int,
        device: int,
        phases: Mapping[Phase, Peak],
        capacity_bytes: int | None = None,
        ran_out: Sequence[Phase | None] = (),
        *,
        assumptions: Iterable[str] = (),
        notes: Iterable[str] = (),
    ) -> Prediction:
        """The verdict that follows from `phases` and from plays with the capacity.

        `ran_out` has one entry for each order that was played with the capacity less what is uncertain: the phase in
        which it ran out of memory, None where it came to the end. Such plays decide, since PyTorch gives cached
        memory back before it fails: more can be reserved without a limit than is needed with one. Without plays the
        upper end of what was reserved has to fit.

        Raises ValueError when there are plays and no capacity.
        """
        if ran_out and capacity_bytes is None:
            raise ValueError("Plays that can run out need a capacity.")
        peak = highest(phases.values())
        failed = {phase for phase in ran_out if phase is not None}
        if not ran_out and capacity_bytes is not None:
            failed = {phase for phase, its in phases.items() if its.most_bytes > capacity_bytes}
        # A play may have run out in a phase that has no peak of its own.
        known = [*phases, *(phase for phase in Phase if phase not in phases)]
        return cls(
            rank,
            device,
            dict(phases),
            peak,
            capacity_bytes,
            fits=None if capacity_bytes is None else not failed,
            fails_in=next((phase for phase in known if phase in failed), None),
            orders_played=len(ran_out),
            orders_failed=sum(phase is not None for phase in ran_out),
            assumptions=tuple(assumptions),
            notes=tuple(notes),
        )

    @property
    def surely_fails(self) -> bool:
        """Whether every order that was played ran out: that is not a matter of addresses."""
        return 0 < self.orders_played == self.orders_failed

    @property
    def spare_bytes(self) -> int | None:
        """What the upper end leaves of the capacity; negative where cached memory would have to be given back, or
        memory is missing. None when the capacity is not known."""
        return None if self.capacity_bytes is None else self.capacity_bytes - self.peak.most_bytes
