"""Random requests, frees, streams and pools: the simulator and the plain model stay equal after every step."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oomph.memory.allocator.arena import OOM, SEGMENT_ALLOC, SEGMENT_FREE, SEGMENT_MAP, SEGMENT_UNMAP
from oomph.memory.allocator.core import CachingAllocator
from oomph.memory.allocator.driver import Driver
from oomph.memory.allocator.errors import DeviceOutOfMemory
from oomph.memory.allocator.settings import AllocatorSettings
from tests.memory.allocator.model import INFINITE, MIB, Model, OutOfMemoryError

KINDS = {
    SEGMENT_ALLOC: "segment_alloc",
    SEGMENT_FREE: "segment_free",
    SEGMENT_MAP: "segment_map",
    SEGMENT_UNMAP: "segment_unmap",
    OOM: "oom",
}
STATES = {"active_allocated": "used", "active_pending_free": "pending", "inactive": "free"}
RESERVATION = 256 * MIB
#: Far apart, and out of order: the order of segments is the driver's.
ADDRESSES = [2**50 + (i * 7 % 997) * 2**34 for i in range(997)]

sizes = st.one_of(
    st.integers(1, 4096),
    st.integers(1, 2 * MIB),
    st.integers(MIB // 2, 24 * MIB),
    st.sampled_from([512, 513, MIB, MIB + 1, 10 * MIB - 512, 10 * MIB, 20 * MIB, 32 * MIB]),
)
steps = st.one_of(
    st.tuples(st.just("malloc"), sizes, st.integers(0, 1)),
    st.tuples(st.just("malloc"), sizes, st.just(0)),
    st.tuples(st.just("free"), st.integers(0, 1000), st.just(0)),
    st.tuples(st.just("free"), st.integers(0, 1000), st.just(0)),
    st.tuples(st.just("use"), st.integers(0, 1000), st.integers(1, 3)),
    st.tuples(st.just("done"), st.integers(1, 3), st.just(0)),
    st.tuples(st.just("empty"), st.just(0), st.just(0)),
)
pool_steps = st.one_of(
    steps, steps, st.tuples(st.sampled_from(["begin", "end", "release"]), st.integers(1, 2), st.just(0))
)


@dataclass
class Pair:
    """The simulator and the model, driven together and compared after every step."""

    model: Model
    allocator: CachingAllocator
    live: list[int] = field(default_factory=list)
    open: list[tuple[int, int]] = field(default_factory=list)
    owned: list[tuple[int, int]] = field(default_factory=list)

    def step(self, what: str, a: int, b: int) -> None:
        if what == "malloc":
            self.malloc(a, b)
        elif what == "free" and self.live:
            address = self.live.pop(a % len(self.live))
            self.model.free(address)
            self.allocator.free(address)
        elif what == "use" and self.live:
            address = self.live[a % len(self.live)]
            self.model.record_stream(address, b)
            self.allocator.record_stream(address, b)
        elif what == "done":
            self.model.complete_events(a)
            self.allocator.complete_events(a)
        elif what == "empty":
            self.model.empty_cache()
            self.allocator.empty_cache()
        elif what in ("begin", "end", "release"):
            self.pool(what, (0, a))
        self.compare()

    def malloc(self, size: int, stream: int) -> None:
        try:
            expected = self.model.malloc(size, stream)
        except OutOfMemoryError:
            with pytest.raises(DeviceOutOfMemory):
                self.allocator.malloc(size, stream)
            return
        assert self.allocator.malloc(size, stream) == expected
        self.live.append(expected)

    def pool(self, what: str, pool: tuple[int, int]) -> None:
        if what == "begin" and pool not in self.open and self.model.owners.get(pool, 1) > 0:
            self.model.begin_pool(pool)
            self.allocator.begin_pool(pool)
            self.open.append(pool)
            self.owned.append(pool)
        elif what == "end" and pool in self.open:
            self.model.end_pool(pool)
            self.allocator.end_pool(pool)
            self.open.remove(pool)
        elif what == "release" and pool in self.owned and pool not in self.open:
            self.model.release_pool(pool)
            self.allocator.release_pool(pool)
            self.owned.remove(pool)

    def compare(self) -> None:
        model, allocator = self.model, self.allocator
        events = [
            (KINDS[kind], 0 if kind == OOM else address, size)
            for kind, address, size, _ in allocator.segment_events
        ]
        assert events == model.events
        segments = allocator.layout()
        blocks = [(b.address, b.size, STATES[b.state], s.stream, s.pool) for s in segments for b in s.blocks]
        assert blocks == [(c.address, c.size, c.state, c.stream, c.pool) for c in model.mapped()]
        assert allocator.reserved_bytes == model.reserved() == sum(s.size for s in segments)
        assert allocator.allocated_bytes == model.allocated()
        assert allocator.peak_reserved_bytes == model.peak_reserved
        assert allocator.peak_allocated_bytes == model.peak_allocated
        assert (allocator.num_alloc_retries, allocator.num_ooms) == (model.retries, model.ooms)
        self.compare_stats(segments)

    def compare_stats(self, segments) -> None:
        stats = self.allocator.stats()
        cells = self.model.cells
        for pool, chosen in (
            ("all", cells),
            ("small_pool", [c for c in cells if c.small]),
            ("large_pool", [c for c in cells if not c.small]),
        ):
            active = [c for c in chosen if c.state in ("used", "pending")]
            used = [c for c in active if c.state == "used"]
            split = [c for c in self.model.splits() if c in chosen]
            fixed = {c.segment for c in chosen if c.segment in self.model.fixed}
            expected = {
                "allocation": len(used),
                "allocated_bytes": sum(c.size for c in used),
                "active": len(active),
                "active_bytes": sum(c.size for c in active),
                "requested_bytes": sum(c.requested for c in active),
                "segment": len(fixed),
                "inactive_split": len(split),
                "inactive_split_bytes": sum(c.size for c in split),
            }
            assert {name: stats[f"{name}.{pool}.current"] for name in expected} == expected
            for name in expected:
                assert (
                    stats[f"{name}.{pool}.allocated"] - stats[f"{name}.{pool}.freed"]
                    == stats[f"{name}.{pool}.current"]
                    <= stats[f"{name}.{pool}.peak"]
                )


def check_layout(allocator: CachingAllocator) -> None:
    """No overlap, no gap inside a segment, no two free neighbours."""
    end = 0
    for segment in allocator.layout():
        assert segment.address >= end
        here, free = segment.address, False
        for block in segment.blocks:
            assert block.address == here
            assert not (free and block.state == "inactive")
            free = block.state == "inactive"
            here += block.size
        assert here == segment.address + segment.size
        end = here


def pair(
    *,
    expandable: bool = False,
    capacity: int | None = None,
    max_split: int | None = None,
    gc: float = 0.0,
    divisions: int = 0,
    large_segment: int = 20 * MIB,
    limit: int | None = None,
) -> Pair:
    chosen = AllocatorSettings(
        expandable_segments=expandable,
        max_split_size_bytes=max_split,
        garbage_collection_threshold=gc,
        roundup_power2_divisions=(divisions,) * 16 if divisions else (),
        large_segment_size_bytes=large_segment,
    )
    model = Model(
        list(ADDRESSES),
        expandable=expandable,
        capacity=INFINITE if capacity is None else capacity,
        max_split=INFINITE if max_split is None else max_split,
        gc=gc,
        divisions=divisions,
        large_segment=large_segment,
        limit=limit,
        reservation=RESERVATION // 8 * 9,
    )
    allocator = CachingAllocator(chosen, capacity, Driver.given(ADDRESSES), device_total_bytes=RESERVATION)
    if limit is not None:
        allocator.set_limit(limit)
    return Pair(model, allocator)


def walk(seed: int, pools: bool, count: int = 250):
    """A long script of a few sizes that meet each other again: equal blocks, exact fits, old ones."""
    rng = random.Random(seed)
    palette = [
        *(700, 4096, 300_000, MIB, MIB + 512, 5 * MIB // 2, 9 * MIB, 10 * MIB, 11 * MIB, 12 * MIB),
        *(19 * MIB, 20 * MIB, 21 * MIB, 32 * MIB, 39 * MIB, 40 * MIB, 41 * MIB),
    ]
    chosen = rng.sample(palette, 7)
    for i in range(count):
        kind = rng.choices(
            ["malloc", "free", "use", "done", "empty", "begin", "end", "release"],
            [40, 40 if i % 50 > 20 else 15, 8, 6, 1, *([4, 4, 2] if pools else [0, 0, 0])],
        )[0]
        if kind == "malloc":
            yield kind, rng.choice(chosen) - rng.choice([0, 0, 0, 1, 512]), rng.choice([0, 0, 0, 1])
        elif kind == "use":
            yield kind, rng.randrange(1000), rng.randint(1, 3)
        else:
            yield kind, rng.randint(1, 3) if kind == "done" else rng.randrange(1, 3 if pools else 1000), 0


def drive(both: Pair, script) -> None:
    for what, a, b in script:
        both.step(what, a, b)
    check_layout(both.allocator)
    for known in list(both.open):
        both.pool("end", known)
    for known in list(both.owned):
        both.pool("release", known)
    while both.live:
        both.step("free", 0, 0)
    both.step("empty", 0, 0)
    assert both.allocator.reserved_bytes == 0
    assert both.allocator.layout() == []


scripts = st.lists(steps, min_size=1, max_size=40)
pool_scripts = st.lists(pool_steps, min_size=1, max_size=40)
capacities = st.one_of(st.none(), st.integers(24, 128).map(lambda n: n * MIB))
quick = settings(max_examples=25, deadline=None)
variants = st.fixed_dictionaries(
    {},
    optional={
        "expandable": st.booleans(),
        "max_split": st.sampled_from([20 * MIB, 24 * MIB, 32 * MIB]),
        "gc": st.sampled_from([0.1, 0.5, 0.9]),
        "divisions": st.sampled_from([1, 2, 4, 8, 64]),
        "large_segment": st.sampled_from([11 * MIB, 32 * MIB]),
        "limit": st.integers(2, 128).map(lambda n: n * MIB),
    },
)


@quick
@given(scripts, capacities)
def test_any_sequence_with_default_settings(script, capacity):
    drive(pair(capacity=capacity), script)


@quick
@given(scripts, capacities)
def test_any_sequence_with_expandable_segments(script, capacity):
    drive(pair(expandable=True, capacity=capacity), script)


@quick
@given(pool_scripts, capacities, variants)
def test_any_sequence_with_any_settings(script, capacity, chosen):
    drive(pair(capacity=capacity, **chosen), script)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("expandable", [False, True])
@pytest.mark.parametrize(
    "chosen",
    [
        {},
        {"capacity": 160 * MIB},
        {"max_split": 20 * MIB, "capacity": 200 * MIB},
        {"max_split": 32 * MIB, "capacity": 300 * MIB},
        {"gc": 0.3, "limit": 300 * MIB},
        {"gc": 0.8, "limit": 200 * MIB, "capacity": 190 * MIB},
        {"divisions": 4, "capacity": 200 * MIB},
        {"large_segment": 32 * MIB, "capacity": 200 * MIB},
        {"limit": 150 * MIB},
    ],
    ids=str,
)
def test_long_walks(chosen, expandable, seed):
    drive(pair(expandable=expandable, **chosen), walk(seed, pools=False))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("expandable", [False, True])
@pytest.mark.parametrize(
    "chosen",
    [
        {},
        {"capacity": 160 * MIB},
        {"gc": 0.4, "limit": 250 * MIB, "capacity": 240 * MIB, "max_split": 20 * MIB, "divisions": 8},
    ],
    ids=str,
)
def test_long_walks_with_private_pools(chosen, expandable, seed):
    drive(pair(expandable=expandable, **chosen), walk(seed, pools=True))
