"""The quick loop against the simulated allocator: to the byte, for all that it plays."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oomph.evidence.snapshot import read
from oomph.job.model import Batch, Framework, Hardware, Job, Optimizer, Parallel, Precision
from oomph.job.names import model
from oomph.job.resolve import resolve
from oomph.memory.allocator.settings import AllocatorSettings
from oomph.memory.replay.address_orders import ORDERS, highest_orders
from oomph.memory.replay.orders import orders_by_group, requests_of_columns, reserved_orders
from oomph.memory.replay.quick import QuickRequests
from oomph.memory.timeline import Kind
from oomph.predict.compose.run import compose, setup_of
from oomph.predict.event_sink import EventSink
from oomph.predict.frameworks import variants

MIB = 1 << 20
SHARED = Path(os.environ.get("OOMPH_CONFORMANCE") or Path(__file__).parents[4] / "shared")
SETTINGS = (
    AllocatorSettings(),
    AllocatorSettings.parse("expandable_segments:True"),
    AllocatorSettings.parse("roundup_power2_divisions:8"),
    AllocatorSettings.parse("large_segment_size_mb:40"),
    AllocatorSettings.parse("expandable_segments:True,large_segment_size_mb:40,roundup_power2_divisions:4"),
)
ALL = len(ORDERS)


def agree(columns, groups, its, capacity=None, orders=ALL):
    """Plays the columns both ways; the peaks of the groups, which are the same."""
    frees, blocks, sizes, streams = columns
    quick = QuickRequests(frees, blocks, sizes, streams, its)
    requests = requests_of_columns(*columns)
    found = quick.by_group(groups, orders)
    assert found == orders_by_group(requests, its, groups, None, orders)
    if capacity is None:
        # Enough for some orders at times, too little for others at others.
        most = highest_orders(found.values()) if found else None
        capacities = [] if most is None else [most.high, most.low, (most.low * 9) // 10, most.low // 2]
    else:
        capacities = [capacity]
    for room in capacities:
        expected = reserved_orders(requests, its, room, orders).fails_at
        assert quick.fails_at(room, orders) == expected
        assert QuickRequests(frees, blocks, sizes, streams, its).fails_at(room, orders) == expected
    return found


def columns_of(seed, count, sizes, streams):
    """Random requests that hold about a third of what they ask for; now and then a free of what is not there."""
    rng = random.Random(seed)
    live: list[int] = []
    rows = []
    for number in range(count):
        if live and rng.random() < 0.45:
            rows.append((1, live.pop(rng.choice((-1, rng.randrange(len(live))))), 0, 0))
        elif rng.random() < 0.01:
            rows.append((1, count + number, 0, 0))
        else:
            live.append(number)
            rows.append((0, number, sizes(rng), rng.choice(streams)))
    return tuple(list(column) for column in zip(*rows, strict=True))


def any_size(rng):
    kind = rng.random()
    if kind < 0.05:
        return 0
    if kind < 0.4:
        return rng.randint(1, MIB + 2048)
    if kind < 0.8:
        return rng.randint(MIB, 12 * MIB)
    return rng.choice((2 * MIB, 20 * MIB, 33 * MIB, 100 * MIB + 512))


def few_sizes(rng):
    """So that many free blocks are of equal size, and addresses decide."""
    return rng.choice((512, 1 << 18, MIB, 2 * MIB, 6 * MIB, 10 * MIB, 34 * MIB))


@pytest.mark.parametrize("its", SETTINGS)
@pytest.mark.parametrize("sizes", [any_size, few_sizes])
@pytest.mark.parametrize("streams", [(0,), (0, 0, 0, 7, 9)])
def test_random_requests(its, sizes, streams) -> None:
    for seed in range(3):
        columns = columns_of(seed, 700, sizes, streams)
        rng = random.Random(seed)
        groups = []
        while len(groups) < 700:
            groups += [rng.randrange(4)] * rng.randint(1, 60)
        agree(columns, groups[:700], its)


@st.composite
def requests(draw):
    """Rows with a group each, in all orders that a shrinking example may need."""
    live: list[int] = []
    rows = []
    for block in range(draw(st.integers(1, 40))):
        if live and draw(st.booleans()):
            rows.append((1, live.pop(draw(st.integers(0, len(live) - 1))), 0, 0))
        else:
            live.append(block)
            size = draw(st.sampled_from((1, 512, MIB, MIB + 1, 3 * MIB, 10 * MIB, 19 * MIB, 30 * MIB)))
            rows.append((0, block, size, draw(st.integers(0, 1))))
    groups = draw(st.lists(st.integers(0, 2), min_size=len(rows), max_size=len(rows)))
    return tuple(list(column) for column in zip(*rows, strict=True)), groups


@settings(deadline=None, max_examples=60)
@given(requests(), st.sampled_from(SETTINGS), st.sampled_from((20, 30, 44, 60, 90)))
def test_every_small_case(asked, its, room) -> None:
    columns, groups = asked
    agree(columns, groups, its, room * MIB, 3)


@pytest.mark.parametrize("text", ["max_split_size_mb:64", "per_process_memory_fraction:0.5"])
def test_other_settings_are_left_to_the_simulated_allocator(text) -> None:
    agree(columns_of(5, 300, any_size, (0,)), [0] * 300, AllocatorSettings.parse(text), orders=2)


def test_a_pair_belongs_to_the_group_that_asked_for_it() -> None:
    columns = ([0, 1, 0], [1, 1, 2], [30 * MIB, 0, 2 * MIB], [0, 0, 0])
    found = agree(columns, [0, 1, 1], AllocatorSettings())
    # The second group holds its own 2 MiB only; the 30 MiB of the pair are cached.
    assert [found[group].allocated[0] // MIB for group in (0, 1)] == [30, 2]
    assert [found[group].values[0] // MIB for group in (0, 1)] == [30, 30]


def test_a_request_beyond_every_device_is_left_to_the_simulated_allocator() -> None:
    huge = 9 << 40
    for its in SETTINGS[:2]:
        agree(([0], [1], [huge], [0]), [0], its, 1 << 40, 2)
    # Ranges of expandable segments that fill up, and one after them.
    agree(([0] * 3, [1, 2, 3], [600 << 30] * 3, [0] * 3), [0, 0, 1], SETTINGS[1], 1 << 40, 2)


def test_nothing_is_asked_for() -> None:
    quick = QuickRequests([], [], [], [], AllocatorSettings())
    assert quick.by_group([]) == {}
    assert quick.fails_at(0, 2) == (None, None)


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(ValueError, match="differ in length"):
        QuickRequests([0], [1, 2], [3], [0], AllocatorSettings())
    quick = QuickRequests([0], [1], [3], [0], AllocatorSettings())
    with pytest.raises(ValueError, match="2 groups for 1 events"):
        quick.by_group([0, 1])
    for orders in (0, len(ORDERS) + 1):
        with pytest.raises(ValueError, match="it can be from 1 to 8"):
            quick.by_group([0], orders)
        with pytest.raises(ValueError, match="it can be from 1 to 8"):
            quick.fails_at(MIB, orders)


def test_real_snapshots() -> None:
    """What real runs asked for, the first 20,000 events of each, as far as columns can say it."""
    manifest = SHARED / "snapshots" / "manifest.json"
    entries = json.loads(manifest.read_text()) if manifest.is_file() else []
    for entry in entries:
        for device in read(SHARED / "snapshots" / entry["file"]).devices:
            timeline = device.timeline
            asked = timeline.part(slice(0, min(20_000, len(timeline))))
            kept = asked.positions(Kind.ALLOC, Kind.FREE_REQUESTED)
            columns = (
                [int(kind != Kind.ALLOC) for kind in asked.kind[kept].tolist()],
                asked.address[kept].tolist(),
                asked.size_bytes[kept].tolist(),
                asked.stream[kept].tolist(),
            )
            groups = [number * 5 // max(1, len(kept)) for number in range(len(kept))]
            agree(columns, groups, AllocatorSettings(), orders=1)


STRATEGIES = ("none", "ddp", "fsdp2_full")
PLANS = [
    *(
        (name, strategy, SETTINGS[0])
        for name in ("meta-llama/Llama-3.1-8B", "Qwen/Qwen2.5-0.5B", "meta-llama/Llama-3.2-1B")
        for strategy in STRATEGIES
    ),
    *(("Qwen/Qwen2.5-0.5B", strategy, SETTINGS[1]) for strategy in STRATEGIES),
]


@pytest.mark.parametrize(("name", "strategy", "its"), PLANS)
def test_timelines_of_plans(name, strategy, its) -> None:
    ranks = 1 if strategy == "none" else 4
    job, _ = resolve(
        Job(
            model=model(name),
            precision=Precision(weights="fp32", compute="bf16", autocast=True),
            optimizer=Optimizer(name="adamw"),
            batch=Batch(micro=2, sequence=384),
            parallel=Parallel(strategy=strategy, data=ranks),
            framework=Framework(name="transformers"),
            hardware=Hardware(gpu="h100-80gb", gpus=ranks, per_node=8),
        )
    )
    sink = EventSink()
    compose(setup_of(job, variants(job)[0]), sink)
    columns = (sink.frees, sink.blocks, sink.sizes, sink.streams)
    most = highest_orders(agree(columns, sink.phases, its, 1 << 50, 3).values())
    agree(columns, sink.phases, its, most.low * 19 // 20, 3)
