"""How much memory a traced job could have had, and whether a simulation of its own settings does what it did.

Both are one question: a capacity is believed when a replay with it, told nothing else about the driver, asks for and
gives back exactly what the trace shows, and fails where the trace does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from oomph.memory.allocator.settings import AllocatorSettings
from oomph.memory.allocator.sizes import ceil_to, segment_size
from oomph.memory.replay.pressure import capacities
from oomph.memory.replay.trial import Outcome, Setup, run_trial, same_events
from oomph.memory.replay.trial_requests import Requests
from oomph.units import format_bytes

#: How a capacity is known that the caller gave, and why there is none.
GIVEN = "given"
UNKNOWN_HOW = "the trace shows no request for which memory ran out"


@dataclass(frozen=True)
class Baseline:
    """The job's own settings, simulated: what other trials are compared with.

    `capacity_bytes`: what PyTorch has in all, at the failed request if there is one (None: not known); `how` as a
    phrase. `most_bytes`: it may be up to this. `ground`: the same with the job's settings as a trial has it; its real
    capacity is that of the recording, also where the caller gave another. `reproduced`: with the real capacity, the
    simulation does exactly what the trace shows. `agree` counts the segment events before the first that differs;
    None when none does.
    """

    capacity_bytes: int | None
    most_bytes: int | None
    how: str
    ground: Setup
    outcome: Outcome
    reproduced: bool
    agree: int | None = None

    def setup(self, settings: AllocatorSettings) -> Setup:
        """The same memory, other settings."""
        return replace(self.ground, settings=settings)

    def at(self, position: int) -> int | None:
        """The capacity at the recorded failure there."""
        return self.ground.capacity_at.get(position, self.capacity_bytes)

    def most_at(self, position: int) -> int | None:
        """What it may be there at most."""
        return self.ground.capacity_at.get(position, self.most_bytes)


@dataclass(frozen=True)
class _Guess:
    """`capacity`, at the failures `at`; `always`: at all other times too, otherwise nothing is known of them."""

    capacity: int | None
    how: str
    at: Mapping[int, int] = field(default_factory=dict)
    most: int | None = None
    always: bool = True

    def setup(self, settings: AllocatorSettings, real: int | None) -> Setup:
        before = self.capacity if self.always else None
        return Setup(settings, before, real_capacity_bytes=real, capacity_at=self.at)


def baseline(requests: Requests, settings: AllocatorSettings, given_bytes: int | None = None) -> Baseline:
    """Plays the job's own settings with `given_bytes` of memory, else with what the trace tells.

    An OOM event records what the device had left; memory that was given back right before a request bounds it from
    above. The first capacity that gives the recorded events is taken; if none does, the one that an OOM event
    records, else none.
    """
    real = _from_trace(requests, settings)
    if given_bytes is None:
        return real
    guess = _Guess(given_bytes, GIVEN)
    if not real.reproduced:
        return _play(requests, settings, guess, given_bytes)
    played = _play(requests, settings, guess, real.ground.real_capacity_bytes)
    return replace(played, reproduced=True, agree=None)


def _from_trace(requests: Requests, settings: AllocatorSettings) -> Baseline:
    """With what the trace alone tells."""
    fallback: Baseline | None = None
    for guess in _guesses(requests, settings):
        played = _play(requests, settings, guess, guess.capacity)
        if not played.reproduced and requests.failures and requests.releases:
            # What looks like memory that ran out may have been empty_cache before a request.
            told = _play(requests, settings, guess, None)
            played = told if told.reproduced else played
        if played.reproduced:
            return played
        if fallback is None and requests.failures:
            fallback = played
    if fallback is not None:
        return fallback
    return _play(requests, settings, _Guess(None, UNKNOWN_HOW), None)


def _play(requests: Requests, settings: AllocatorSettings, guess: _Guess, real: int | None) -> Baseline:
    setup = guess.setup(settings, real)
    outcome = run_trial(requests, setup)
    reproduced = same_events(requests, outcome)
    agree = None if reproduced else _first_difference(requests, outcome)
    most = guess.capacity if guess.most is None else guess.most
    return Baseline(guess.capacity, most, guess.how, setup, outcome, reproduced, agree)


def _first_difference(requests: Requests, outcome: Outcome) -> int:
    recorded = requests.recorded(outcome.last)
    pairs = zip(recorded, outcome.events, strict=False)
    shorter = min(len(recorded), len(outcome.events))
    return next((place for place, (ours, theirs) in enumerate(pairs) if ours != theirs), shorter)


def _guesses(requests: Requests, settings: AllocatorSettings) -> Iterator[_Guess]:
    """Capacities that the trace allows, best first."""
    timeline, peak = requests.timeline, requests.peak_reserved_bytes
    failures = [position for position in requests.failures if position in timeline.free_bytes]
    available = {
        position: int(requests.reserved_bytes[position]) + timeline.free_bytes[position]
        for position in failures
    }
    if failures:
        last = available[failures[-1]]
        if last >= peak:
            one = len(set(available.values())) == 1
            how = (
                f"reserved and free on the device at the {'failed request' if one else 'last failed request'}"
            )
            yield _Guess(last, how, available)
        else:
            how = "reserved and free on the device at the last failed request; other memory on it had grown"
            yield _Guess(last, how, available, always=False)
        yield from _limits(requests, settings, available)
    bounds = [each.bound_bytes for each in requests.releases if each.bound_bytes is not None]
    above = [bound for bound in bounds if bound > peak]
    if above:
        why = "cached memory had to be given back to serve a request"
        if not requests.sure:
            why = "cached memory was given back right before a request, if that was not empty_cache"
        how = (
            f"from {format_bytes(peak)} to less than {format_bytes(min(above))}, because {why}; {{}} was used"
        )
        for capacity in capacities(timeline, requests.start.reserved_bytes, requests.releases):
            if peak <= capacity < min(above):
                yield _Guess(capacity, how.format(format_bytes(capacity)))


def _limits(
    requests: Requests, settings: AllocatorSettings, available: Mapping[int, int]
) -> Iterator[_Guess]:
    """The device had room for the failed request: PyTorch's own limit was in the way. It lies between the most that
    was reserved and what the request would have made of it; what is served at the least is served at all."""
    timeline, page = requests.timeline, settings.large_segment_size_bytes
    most = []
    for position in available:
        size = int(timeline.size_bytes[position])
        asked = segment_size(size, page)
        needed = ceil_to(size, page) if settings.expandable_segments else asked
        if timeline.free_bytes[position] >= needed:
            most.append(int(requests.reserved_bytes[position]) + asked - 1)
    peak = requests.peak_reserved_bytes
    if most and min(most) >= peak:
        how = (
            f"a limit from {format_bytes(peak)} to {format_bytes(min(most))}, because the device had room for the "
            "failed request; {} was used"
        )
        for capacity in dict.fromkeys((peak, (peak + min(most)) // 2, min(most))):
            yield _Guess(capacity, how.format(format_bytes(capacity)), most=min(most))
