"""Curves against a slow count, state by state."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oomph.diagnose.snapshot.curves import bucket_starts, curves, differences, important, states_of
from oomph.memory.lifetimes import Lifetimes
from oomph.phases import Phase


def lives(events: int, rows: list[tuple[int, int, int]]) -> Lifetimes:
    """Blocks of (born, freed, bytes)."""
    rows = sorted(rows)
    born, freed, size = (np.array([row[column] for row in rows], np.int64) for column in range(3))
    none = np.zeros(len(rows), np.int64)
    return Lifetimes(
        address=none,
        requested_bytes=size,
        size_bytes=size,
        stream=none,
        pool=none.astype(np.int32),
        small=none.astype(bool),
        born=born,
        freed=freed,
        done=freed,
        pools=((0, 0),),
        events=events,
    )


@st.composite
def traces(draw):
    events = draw(st.integers(1, 60))
    rows = []
    for _ in range(draw(st.integers(0, 25))):
        born = draw(st.integers(-1, events - 1))
        freed = draw(st.integers(born + 1, events))
        rows.append((born, freed, 512 * draw(st.integers(1, 40))))
    return events, rows


def drawn(blocks, category, *, focus=0, overview=5, detail=4):
    events = blocks.events
    reserved = np.arange(events + 1, dtype=np.int64) * 512
    phase = np.arange(events) % len(Phase)
    return curves(
        blocks,
        category,
        reserved,
        phase.astype(np.int8),
        np.arange(events, dtype=np.int64) * 10,
        focus,
        overview=overview,
        detail=detail,
    )


@given(traces(), st.integers(-1, 70), st.integers(0, 7))
def test_every_bucket_keeps_its_peak_its_lowest_and_its_parts(trace, focus, first):
    events, rows = trace
    blocks = lives(events, rows)
    category = ((np.arange(len(rows)) + first) % 8).astype(np.int8)
    found = drawn(blocks, category, focus=focus)
    # State s is after event s - 1: a block is there from state born + 1 up to, not including, freed + 1.
    table = [
        [
            sum(
                int(blocks.size_bytes[row])
                for row in range(len(rows))
                if category[row] == number and blocks.born[row] + 1 <= state < blocks.freed[row] + 1
            )
            for number in range(8)
        ]
        for state in range(events + 1)
    ]
    total = [sum(row) for row in table]
    assert found.states == events + 1
    assert found.starts[0] == 0
    ends = [*found.starts[1:].tolist(), events + 1]
    for bucket, (start, end) in enumerate(zip(found.starts.tolist(), ends, strict=True)):
        assert start < end
        inside = total[start:end]
        assert found.peak[bucket] == start + inside.index(max(inside))
        assert found.by_category[:, bucket].tolist() == table[found.peak[bucket]]
        assert found.lowest[bucket] == min(inside)
        assert found.reserved[bucket] == 512 * (end - 1)


def test_buckets_are_few_and_fine_around_the_focus():
    starts = bucket_starts(1_000_000, 700_000, overview=1000, detail=500)
    assert len(starts) <= 1501
    near = starts[(starts >= 699_800) & (starts < 700_200)]
    assert near.tolist() == list(range(699_800, 700_200))
    assert np.diff(starts).max() == 1000
    assert bucket_starts(20, 3, overview=10, detail=10).tolist() == list(range(20))
    assert bucket_starts(100, 99, overview=10, detail=10)[-10:].tolist() == list(range(90, 100))


def test_phases_and_times_of_buckets():
    # 8 events in 2 buckets of 5 and 4 states: unknown counts only where it is alone.
    forward, backward, unknown = (
        tuple(Phase).index(p) for p in (Phase.FORWARD, Phase.BACKWARD, Phase.UNKNOWN)
    )
    phase = np.array([forward, forward, backward, unknown, unknown, unknown, unknown, unknown], np.int8)
    time = np.array([100, 110, 105, 130, 140, 150, 160, 170], np.int64)
    reserved = np.zeros(9, np.int64)
    none = np.zeros(0, np.int8)
    found = curves(lives(8, []), none, reserved, phase, time, 0, overview=2, detail=0)
    assert found.starts.tolist() == [0, 5]
    assert found.phase.tolist() == [forward, unknown]
    assert found.time_us is not None
    assert found.time_us.tolist() == [0, 40]
    whole = curves(lives(8, []), none, reserved, phase, time, 0)
    assert whole.time_us is not None
    assert whole.time_us.tolist() == [0, 0, 10, 10, 30, 40, 50, 60, 70]  # never falling
    unrecorded = curves(lives(8, []), none, reserved, phase, np.full(8, -1, np.int64), 0)
    assert unrecorded.time_us is None


def test_important_blocks_are_found_at_every_scale():
    # One block for the whole trace; a thousand that live 4 events; one of those a hundred times as large.
    rows = [(-1, 8000, 1 << 20)]
    rows += [(8 * number, 8 * number + 4, 512 * (100 if number == 617 else 1)) for number in range(1000)]
    blocks = lives(8000, rows)
    chosen = important(blocks, most=100)
    assert len(chosen) <= 100
    born = blocks.born[chosen].tolist()
    assert -1 in born
    assert 8 * 617 in born
    # 8,001 states are looked at in five scales down to 16 events: 20 blocks each, of the second 5 in each quarter.
    for quarter in range(4):
        assert sum(2000 * quarter <= value < 2000 * (quarter + 1) for value in born) >= 5
    assert born == sorted(born)
    assert len(important(blocks, most=2000)) == 1001


def test_blocks_that_were_asked_back_before_the_trace_are_not_drawn():
    blocks = lives(4, [(-1, -1, 1024), (0, 4, 512)])
    assert important(blocks).tolist() == [1]
    found = drawn(blocks, np.zeros(2, np.int8))
    assert found.by_category.sum(axis=0).max() == 512


@pytest.mark.parametrize("values", [[5], [3, 3, 10, 2]])
def test_differences_sum_up_again(values):
    assert np.cumsum(differences(np.array(values, np.int64))).tolist() == values


def test_states_begin_with_the_start():
    assert states_of(7, np.array([8, 9], np.int64)).tolist() == [7, 8, 9]
