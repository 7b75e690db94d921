"""Ranks of a job, and devices of one process: which is not like the others, and where."""

from __future__ import annotations

import pickle

import msgspec
import pytest

from oomph.diagnose.snapshot.analysis import Analysis
from oomph.diagnose.snapshot.compare import compare, threshold_bytes
from oomph.diagnose.snapshot.compare_model import Change
from oomph.diagnose.snapshot.compare_sides import ranks_of
from oomph.evidence.snapshot import from_bytes
from oomph.memory.categories import Category
from oomph.units import GIB, KIB, MIB
from tests.diagnose.snapshot.compare_snapshots import Block, analysis, frames_of, with_category
from tests.evidence.snapshot.build import BASE, block, event, segment, snapshot

WEIGHT = [("build", "train.py", 10)]
HIDDEN = [("forward", "model.py", 20)]
GATHER = [("gather_outputs", "evaluate.py", 88), ("main", "train.py", 90)]
P, A, T = Category.PARAMETERS, Category.ACTIVATIONS, Category.TEMPORARIES


def rank(number: int, hidden: int = 4 * GIB, gathered: int = 0, name: str = "snap_rank{}.pickle"):
    blocks: list[Block] = [(8 * GIB, WEIGHT, P), (hidden, HIDDEN, A)]
    if gathered:
        blocks.append((gathered, GATHER, T))
    source = name.format(number)
    return source, analysis(blocks, source)


def test_the_rank_that_gathers():
    result = compare([rank(3), rank(0, gathered=2 * GIB), rank(2), rank(1)])
    assert (result.what, result.noun) == ("many", "ranks")
    assert [side.label for side in result.sides] == ["rank 0", "rank 1", "rank 2", "rank 3"]
    (one,) = result.deviations
    assert (one.label, one.side, one.difference_bytes) == ("rank 0", 0, 2 * GIB)
    assert one.categories == ((T, 2 * GIB),)
    assert [(row.change, row.a_bytes, row.b_bytes) for row in one.stacks] == [(Change.NEW, 0, 2 * GIB)]
    assert result.alike == ("rank 1", "rank 2", "rank 3")
    assert result.says == (
        "Rank 0 has 14.00 GiB allocated, 2.00 GiB more than rank 1: temporaries +2.00 GiB; the largest single "
        "difference is new: 2.00 GiB of temporaries at gather_outputs (evaluate.py:88). "
        "Rank 1 to rank 3 hold the same."
    )


def test_ranks_that_are_equal():
    result = compare([rank(number, 4 * GIB + number * MIB) for number in range(4)])
    assert result.deviations == ()
    assert result.alike_bytes == 3 * MIB
    # The middle one is rank 1: distances 0+1+2+3=6, 1+0+1+2=4, 2+1+0+1=4, 6 MiB; the first of the two nearest.
    assert result.middle == 1
    assert result.says == "All 4 ranks hold the same: 12.00 GiB allocated, to within 3.00 MiB."


def test_a_rank_with_less():
    result = compare([rank(0), rank(1), rank(2, hidden=GIB), rank(3)])
    (one,) = result.deviations
    assert (one.label, one.difference_bytes) == ("rank 2", -3 * GIB)
    assert result.alike == ("rank 0", "rank 1", "rank 3")
    assert "Rank 0, rank 1 and rank 3 hold the same." in result.says


def test_as_much_for_something_else():
    result = compare([rank(0, hidden=3 * GIB, gathered=GIB), rank(1), rank(2)])
    (one,) = result.deviations
    assert one.difference_bytes == 0
    assert one.categories == ((A, -GIB), (T, GIB))
    assert "Rank 0 has as much allocated as rank 1, but not for the same" in result.says


def test_stages_of_a_pipeline_are_all_different():
    result = compare([rank(number, (1 + number) * GIB) for number in range(3)])
    assert [one.label for one in result.deviations] == ["rank 0", "rank 2"]
    assert result.says.endswith("No two ranks hold the same: from 9.00 GiB (rank 0) to 11.00 GiB (rank 2).")


def test_many_ranks_that_differ_are_counted():
    result = compare([rank(number, (1 + number) * GIB) for number in range(8)])
    assert len(result.deviations) == 7
    assert "4 more ranks differ from" in result.says


def test_hundreds_of_ranks_are_taken_apart_as_far_as_anybody_reads():
    # An odd number, so that one rank is in the middle: 20 + 20 differ.
    result = compare([rank(number, (1 + number) * GIB) for number in range(41)])
    assert result.middle == 20
    assert [bool(one.stacks) for one in result.deviations] == [True] * 32 + [False] * 8
    assert [abs(one.difference_bytes) for one in result.deviations[:3]] == [20 * GIB, 20 * GIB, 19 * GIB]


@pytest.mark.parametrize("ranks", [2, 3])
def test_the_answer_is_plain_data(ranks):
    result = compare([rank(0, gathered=2 * GIB), *(rank(number) for number in range(1, ranks))])
    again = msgspec.json.decode(msgspec.json.encode(result))
    assert again["sides"][0]["allocated_bytes"] == 14 * GIB
    assert again["says"] == result.says


def test_just_below_and_above_the_threshold():
    # 12 GiB: a hundredth of it, 122.88 MiB, is more than 64 MiB.
    bound = threshold_bytes(12 * GIB)
    assert bound == 12 * GIB // 100
    below = compare([rank(0, gathered=bound - bound % 512), rank(1), rank(2)])
    above = compare([rank(0, gathered=bound - bound % 512 + 512), rank(1), rank(2)])
    assert below.deviations == ()
    assert len(above.deviations) == 1


@pytest.mark.parametrize(
    ("allocated", "expected"),
    [(100 * MIB, 10 * MIB), (640 * MIB, 64 * MIB), (5 * GIB, 64 * MIB), (100 * GIB, GIB), (0, 0)],
)
def test_thresholds(allocated, expected):
    assert threshold_bytes(allocated) == expected


def test_two_ranks_are_set_against_each_other():
    result = compare([rank(0), rank(1, gathered=2 * GIB)])
    assert (result.what, result.noun) == ("two", "ranks")
    assert result.says.startswith("Rank 1 has 14.00 GiB allocated, 2.00 GiB more than rank 0 (12.00 GiB)")


@pytest.mark.parametrize(
    ("sources", "expected"),
    [
        (["out/rank0_memory.pickle", "out/rank1_memory.pickle"], [0, 1]),
        (["node7_r3.pickle", "node2_r12.pickle"], [3, 12]),
        (["mem-gpu0.pickle", "mem-gpu1.pickle", "mem-gpu2.pickle"], [0, 1, 2]),
        (["rank_0.pickle", "rank_0_later.pickle"], None),
        (["step_100.pickle", "step_200.pickle"], None),
        (["before.pickle", "after.pickle"], None),
        (["r1_baseline.pickle", "r2_flash.pickle"], None),
    ],
)
def test_ranks_by_names(sources, expected):
    assert ranks_of(sources) == expected


def test_files_that_are_no_ranks_go_by_their_names():
    result = compare([rank(number, GIB << number, name="{}.run.pickle") for number in range(3)])
    assert result.noun == "snapshots"
    assert [side.label for side in result.sides] == ["0.run.pickle", "1.run.pickle", "2.run.pickle"]
    assert [one.label for one in result.deviations] == ["2.run.pickle", "0.run.pickle"]
    assert result.says.startswith("2.run.pickle has 12.00 GiB allocated, 2.00 GiB more than 1.run.pickle")


def devices() -> list[tuple[str, Analysis]]:
    """Three GPUs of one process: the second holds 1 GiB besides, a fourth is not used."""
    segments = []
    for device, extra in ((0, 0), (1, GIB), (2, 0)):
        blocks = [block(BASE, 2 * GIB, frames=frames_of(WEIGHT))]
        if extra:
            blocks.append(block(BASE + 2 * GIB, extra, frames=frames_of(GATHER)))
        segments.append(segment(blocks=blocks, segment_type="large", device=device))
    content = from_bytes(pickle.dumps(snapshot(segments, [[], [], [], []])), "job.pickle")
    made = [Analysis(content, device) for device in range(4)]
    for one in made:
        with_category(one, [P, T][: len(one.alive)])
    return [("job.pickle", one) for one in made]


def test_devices_of_one_process():
    result = compare(devices())
    assert result.noun == "devices"
    assert [side.label for side in result.sides] == ["device 0", "device 1", "device 2"]
    assert [(one.label, one.difference_bytes) for one in result.deviations] == [("device 1", GIB)]
    assert result.notes[0] == "job.pickle, device 3, was not used and is left out"
    assert result.says.endswith("Device 0 and device 2 hold the same.")


def test_two_moments_of_one_run():
    frames = frames_of(HIDDEN)
    trace = [
        event("segment_alloc", BASE, 20 * MIB),
        event("alloc", BASE, 4 * MIB, frames=frames),
        event("alloc", BASE + 4 * MIB, 4 * MIB, frames=frames),
        event("alloc", BASE + 8 * MIB, 4 * MIB, frames=frames),
    ]
    blocks = [block(BASE + 4 * MIB * number, 4 * MIB, frames=frames) for number in range(3)]
    blocks.append(block(BASE + 12 * MIB, 8 * MIB, "inactive"))
    content = from_bytes(
        pickle.dumps(snapshot([segment(blocks=blocks, segment_type="large")], [trace])), "run.pickle"
    )
    result = compare([("run.pickle", Analysis(content, 0, "1")), ("run.pickle", Analysis(content, 0, "3"))])
    assert result.noun == "moments"
    assert [side.label for side in result.sides] == ["event 1", "event 3"]
    assert [(row.change, row.a_bytes, row.b_bytes, row.a_blocks, row.b_blocks) for row in result.stacks] == [
        (Change.GROWN, 4 * MIB, 12 * MIB, 1, 3)
    ]
    assert [side.cached_bytes for side in result.sides] == [16 * MIB, 8 * MIB]


def test_moments_of_different_kinds_weaken_the_answer():
    ended = analysis([(8 * KIB, WEIGHT, P)], "a.pickle")
    trace = [event("alloc", BASE, 8 * KIB)]
    blocks = [block(BASE, 8 * KIB), block(BASE + 8 * KIB, 2 * MIB - 8 * KIB, "inactive")]
    peak = Analysis(from_bytes(pickle.dumps(snapshot([segment(blocks=blocks)], [trace])), "b.pickle"), 0)
    result = compare([("a", ended), ("b", peak)])
    assert result.notes[0] == (
        "the moments are not of one kind (end, peak allocated): some of the difference may be theirs"
    )
