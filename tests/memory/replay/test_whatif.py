"""The same requests under other settings: against the allocator itself, and against sums written out."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oomph.evidence.snapshot import allocator_settings
from oomph.memory.allocator.core import CachingAllocator
from oomph.memory.allocator.errors import DeviceOutOfMemory
from oomph.memory.allocator.settings import AllocatorSettings
from oomph.memory.replay import start_state
from oomph.memory.replay.trial import Outcome, Setup, run_trial
from oomph.memory.replay.trial_requests import PAIR, Requests
from oomph.memory.replay.whatif import Baseline, baseline
from oomph.units import GIB, KIB, MIB
from tests.memory.replay.recorder import Recorder

PLAIN = AllocatorSettings(torch=(2, 6))
OTHERS = {
    "default": PLAIN,
    "expandable": replace(PLAIN, expandable_segments=True),
    "max split": replace(PLAIN, max_split_size_bytes=32 * MIB),
    "rounded": replace(PLAIN, roundup_power2_divisions=(4,) * 16),
    "large segments": replace(PLAIN, large_segment_size_bytes=64 * MIB),
}
SIZES = (1, 512, 700 * KIB, MIB, MIB + 512, 3 * MIB, 9 * MIB, 10 * MIB, 21 * MIB, 33 * MIB, 47 * MIB)

Step = tuple[str, int, int]  # what, which block, how many bytes


def steps(seed: int, count: int, *, pairs: float) -> list[Step]:
    """Requests and frees; some blocks are freed right away."""
    chance = random.Random(seed)
    live: list[int] = []
    result: list[Step] = []
    for block in range(count):
        result.append(("take", block, chance.choice(SIZES) + chance.choice((0, 4, 5 * KIB, 300 * KIB))))
        if chance.random() < pairs:
            result.append(("free", block, 0))
        else:
            live.append(block)
        if len(live) > 4 and chance.random() < 0.7:
            result.append(("free", live.pop(chance.randrange(len(live))), 0))
    return result


def record(script: list[Step], settings: AllocatorSettings = PLAIN, capacity: int | None = None) -> Recorder:
    recorder = Recorder(settings, capacity)
    where: dict[int, int | None] = {}
    for what, block, size in script:
        if what == "take":
            where[block] = recorder.malloc(size)
        elif what == "empty":
            recorder.empty_cache()
        else:
            places = [address for address, *_ in recorder.live]
            address = where.pop(block)
            if address is not None:
                recorder.free(places.index(address))
    return recorder


def requests_of(recorder: Recorder, last: int | None = None) -> tuple[Requests, AllocatorSettings]:
    snapshot = recorder.snapshot(last)
    device, settings = snapshot.devices[0], allocator_settings(snapshot)
    start = start_state(device.segments, device.timeline, settings)
    return Requests(device.timeline, start, device.segments), settings


def direct(
    script: list[Step], settings: AllocatorSettings, capacity: int | None
) -> tuple[CachingAllocator, int]:
    """The allocator under these settings, and how many requests it served."""
    allocator = CachingAllocator(settings, capacity, device_total_bytes=1024 * GIB)
    where: dict[int, int] = {}
    served = 0
    for what, block, size in script:
        if what == "take":
            try:
                where[block] = allocator.malloc(size)
            except DeviceOutOfMemory:
                return allocator, served
            served += 1
        else:
            allocator.free(where.pop(block))
    return allocator, served


def play(recorder: Recorder, settings: AllocatorSettings = PLAIN, **setup: object) -> Outcome:
    requests, _ = requests_of(recorder)
    return run_trial(requests, Setup(settings, **setup))  # type: ignore[arg-type]


def found(recorder: Recorder, given_bytes: int | None = None) -> Baseline:
    requests, settings = requests_of(recorder)
    return baseline(requests, settings, given_bytes)


@pytest.mark.parametrize("name", OTHERS)
@given(st.integers(0, 10**6), st.sampled_from((None, 400 * MIB, 250 * MIB)))
def test_a_trial_is_the_allocator_under_those_settings(name: str, seed: int, capacity: int | None):
    script = steps(seed, 60, pairs=0.4)
    requests, _ = requests_of(record(script))
    assert PAIR in requests.codes
    outcome = run_trial(requests, Setup(OTHERS[name], capacity))
    allocator, served = direct(script, OTHERS[name], capacity)
    allocs = [at for at, what in enumerate(requests.timeline.kind.tolist()) if what == 0]
    assert outcome.fails_at == (allocs[served] if served < len(allocs) else None)
    assert outcome.peak_reserved_bytes == allocator.peak_reserved_bytes
    assert outcome.peak_allocated_bytes == allocator.peak_allocated_bytes
    assert outcome.reserved_bytes == allocator.reserved_bytes
    assert outcome.allocated_bytes == allocator.allocated_bytes
    assert outcome.retries == allocator.num_alloc_retries
    assert outcome.problems == 0


@given(st.integers(0, 10**6), st.sampled_from((600 * MIB, 300 * MIB, 200 * MIB)), st.booleans())
def test_what_happened_is_reproduced(seed: int, capacity: int, expandable: bool):
    settings = replace(PLAIN, expandable_segments=expandable)
    recorder = record(steps(seed, 80, pairs=0.3), settings, capacity)
    base = found(recorder)
    assert base.reproduced
    assert base.agree is None
    if recorder.allocator.num_ooms:  # the OOM event holds what was free
        assert base.capacity_bytes == capacity


def test_gc_ages_count_pairs_too():
    """With garbage collection a pair makes a block younger, so nothing is abbreviated.

    Limit 1000 MiB, threshold 0.5: collection starts above 500 MiB. Blocks of 200, 210 and 220 MiB are freed in that
    order; then 200 MiB are taken and freed at once, twice, which makes that block the youngest of the three. A
    request of 300 MiB finds 630 MiB reserved, 130 too many. Searches of the large pool when the blocks came back: 3,
    3 and, for the 200 MiB block, 5 at last; now it is the 6th, so ages are 3, 3 and 1, the mean 7/3: the blocks of
    210 and 220 MiB go, the young one stays. 200 + 300 = 500 MiB.
    """
    script: list[Step] = [("take", 0, 200 * MIB), ("take", 1, 210 * MIB), ("take", 2, 220 * MIB)]
    script += [("free", 0, 0), ("free", 1, 0), ("free", 2, 0)]
    script += [("take", 3, 200 * MIB), ("free", 3, 0), ("take", 4, 200 * MIB), ("free", 4, 0)]
    script += [("take", 5, 300 * MIB)]
    settings = replace(PLAIN, garbage_collection_threshold=0.5)
    outcome = play(record(script), settings, capacity_bytes=1000 * MIB, limit_bytes=1000 * MIB)
    assert (outcome.releases, outcome.retries) == (2, 0)
    assert outcome.reserved_bytes == 500 * MIB


def test_memory_that_waits_for_other_streams_is_waited_for_when_the_device_is_full():
    """100 MiB: a block of 60 MiB is freed, but another stream works on it still. The next 60 MiB do not fit beside
    it, so PyTorch waits for that stream, gives the block back, and asks again: never more than 60 MiB."""
    recorder = Recorder(PLAIN)
    recorder.malloc(60 * MIB)
    recorder.free(0, at_once=False)
    recorder.malloc(60 * MIB)
    recorder.complete(0)
    recorder.malloc(30 * MIB)
    outcome = play(recorder, capacity_bytes=100 * MIB)
    assert (outcome.fails_at, outcome.retries, outcome.releases, outcome.problems) == (None, 1, 1, 0)
    assert outcome.peak_reserved_bytes == 90 * MIB
    unlimited = play(recorder)
    assert (
        unlimited.peak_reserved_bytes == 120 * MIB
    )  # the second block stands beside the first; 30 go into that
    assert unlimited.problems == 0


def test_a_release_of_a_full_device_is_not_repeated_where_there_is_room():
    """Two cached blocks of 400 MiB were given back for one of 900 on 1000 MiB. With 2000 MiB that was not needed:
    800 + 900."""
    script: list[Step] = [("take", 0, 400 * MIB), ("take", 1, 400 * MIB), ("free", 0, 0), ("free", 1, 0)]
    script += [("take", 2, 900 * MIB)]
    recorder = record(script, capacity=1000 * MIB)
    base = found(recorder)
    assert base.reproduced
    # At least what was reserved, less than what it would have been without giving back: 800 + 900.
    assert base.capacity_bytes is not None
    assert 900 * MIB <= base.capacity_bytes < 1700 * MIB
    assert "right before a request, if that was not empty_cache" in base.how
    larger = play(recorder, capacity_bytes=2000 * MIB, real_capacity_bytes=base.capacity_bytes)
    assert (larger.peak_reserved_bytes, larger.releases, larger.retries) == (1700 * MIB, 0, 0)
    repeated = play(recorder, capacity_bytes=2000 * MIB)
    assert (repeated.peak_reserved_bytes, repeated.releases) == (900 * MIB, 2)


def test_an_emptied_cache_is_emptied_in_every_trial():
    script: list[Step] = [("take", 0, 400 * MIB), ("free", 0, 0), ("empty", 0, 0), ("take", 1, 300 * MIB)]
    base = found(record(script))
    assert (base.capacity_bytes, base.reproduced) == (None, True)
    assert base.outcome.reserved_bytes == 300 * MIB


def test_a_given_capacity_replaces_that_of_the_trace():
    script: list[Step] = [("take", 0, 600 * MIB), ("take", 1, 600 * MIB)]
    recorder = record(script, capacity=1000 * MIB)
    base = found(recorder, 2000 * MIB)
    assert (base.capacity_bytes, base.ground.real_capacity_bytes, base.how) == (
        2000 * MIB,
        1000 * MIB,
        "given",
    )
    assert base.reproduced
    assert (base.outcome.fails_at, base.outcome.served_at) == (None, 2)  # segment, block, OOM
    smaller = found(recorder, 500 * MIB)
    assert smaller.outcome.fails_at == 1


def test_a_limit_is_found_where_the_device_had_room():
    """600 MiB reserved, a request of 600 failed although the device had 10 GiB: a limit from 600 to just below 1200
    MiB. The least is taken: what is served there is served at all."""
    recorder = record([("take", 0, 600 * MIB), ("take", 1, 600 * MIB)], capacity=1000 * MIB)
    recorder.events[-1]["device_free"] = 10 * GIB
    base = found(recorder)
    assert base.reproduced
    assert (base.capacity_bytes, base.most_bytes) == (600 * MIB, 1200 * MIB - 1)
    assert base.how.startswith("a limit from 600.00 MiB")


def test_a_device_that_had_less_at_the_end():
    """800 MiB were reserved and given back; later 500 MiB failed with 300 free and 10 reserved: something else had
    taken the rest. The earlier peak is possible, the failure is too."""
    recorder = record([("take", 0, 800 * MIB), ("free", 0, 0), ("empty", 0, 0), ("take", 1, 10 * MIB)])
    recorder.events.append({"action": "oom", "device_free": 300 * MIB, "size": 500 * MIB, "stream": 0})
    base = found(recorder)
    assert base.reproduced
    assert base.capacity_bytes == 310 * MIB
    assert base.ground.capacity_bytes is None  # how much the device had before is not known
    assert base.outcome.fails_at == len(recorder.events) - 1
    assert base.how.endswith("other memory on it had grown")


def test_a_failure_that_the_job_survived_is_passed():
    script: list[Step] = [("take", 0, 600 * MIB), ("take", 1, 600 * MIB), ("take", 2, 200 * MIB)]
    recorder = record(script, capacity=1000 * MIB)
    base = found(recorder)
    assert base.reproduced
    assert (base.outcome.fails_at, base.outcome.survived) == (None, (2,))
    assert base.outcome.peak_reserved_bytes == 800 * MIB
    served = play(recorder, capacity_bytes=1200 * MIB)
    assert (served.served_at, served.last, served.survived) == (2, 2, ())
    assert served.peak_reserved_bytes == 1200 * MIB


def test_nonsense_is_counted_and_does_no_harm():
    recorder = record([("take", 0, 3 * MIB)])
    recorder.events.append({"action": "free_requested", "addr": 12345, "size": 512, "stream": 0})
    recorder.events.append({"action": "free_completed", "addr": 12345, "size": 512, "stream": 0})
    recorder.events.append({"action": "free_completed", "addr": 99999, "size": 512, "stream": 0})
    outcome = play(recorder)
    assert outcome.problems > 0
    assert outcome.fails_at is None


def test_moments_of_emptying_are_taken_from_the_caller():
    """Cached 400 MiB are given back after the free (event 3: segment, block, free, completed)."""
    recorder = record([("take", 0, 400 * MIB), ("free", 0, 0), ("take", 1, 300 * MIB)])
    kept = play(recorder)
    assert (kept.peak_reserved_bytes, kept.releases, kept.reserved_bytes) == (400 * MIB, 0, 400 * MIB)
    emptied = play(recorder, empty_after=(3,))
    assert (emptied.peak_reserved_bytes, emptied.releases, emptied.reserved_bytes) == (
        400 * MIB,
        1,
        300 * MIB,
    )


def test_private_pools_do_not_share():
    """30 MiB of the default pool are free when a graph's pool asks for 30: another segment, in every trial."""
    recorder = record([("take", 0, 30 * MIB), ("free", 0, 0)])
    recorder.malloc(30 * MIB, pool=(0, 1))
    for settings in (PLAIN, OTHERS["max split"]):
        assert play(recorder, settings).peak_reserved_bytes == 60 * MIB
    assert found(recorder).reproduced
