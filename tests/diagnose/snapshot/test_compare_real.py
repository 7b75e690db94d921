"""Real snapshots side by side, where there are some: sums agree, and what their makers recorded is found."""

from __future__ import annotations

import json

from oomph.diagnose.snapshot.analysis import Analysis
from oomph.diagnose.snapshot.compare import compare
from oomph.diagnose.snapshot.compare_model import SnapshotComparison
from oomph.evidence.snapshot import read
from oomph.memory.categories import Category
from tests.conformance.test_snapshots import FOLDER, OOM

FORWARD = "transformer-small-ctx200-forward.pickle"
TRAINING = "transformer-small-ctx200-fwd-bwd-mixed.pickle"


def have(*names: str) -> bool:
    """Without a folder of real snapshots there is nothing to compare."""
    return FOLDER is not None and all((FOLDER / name).is_file() for name in names)


def assert_sums_agree(result: SnapshotComparison) -> None:
    a, b = result.sides
    difference = b.allocated_bytes - a.allocated_bytes
    assert sum(row.bytes[0] for row in result.categories) == a.allocated_bytes
    assert sum(row.bytes[1] for row in result.categories) == b.allocated_bytes
    assert sum(row.difference_bytes for row in result.categories) == difference
    assert result.left_out == 0
    assert sum(row.difference_bytes for row in result.stacks) == difference


def test_inference_against_training():
    if not have(FORWARD, TRAINING):
        return
    assert FOLDER is not None
    result = compare(
        [("A", Analysis(read(FOLDER / FORWARD), 0)), ("B", Analysis(read(FOLDER / TRAINING), 0))]
    )
    assert_sums_agree(result)
    known = {entry["file"]: entry for entry in json.loads((FOLDER / "manifest.json").read_text())}
    for side, name in zip(result.sides, (FORWARD, TRAINING), strict=True):
        assert [side.peak_allocated_bytes] == known[name]["peak_allocated_bytes"]
        assert [side.peak_reserved_bytes] == known[name]["peak_reserved_bytes"]
    state = next(row for row in result.categories if row.category is Category.OPTIMIZER_STATE)
    assert state.bytes[0] == 0  # a forward pass has no optimizer
    assert state.bytes[1] > 0


def test_devices_of_the_job_that_ran_out_of_memory():
    if not have(OOM):
        return
    assert FOLDER is not None
    snapshot = read(FOLDER / OOM)
    result = compare([("x", Analysis(snapshot, device.index)) for device in snapshot.devices])
    assert result.noun == "devices"
    assert result.deviations[0].label == "device 1"
    failed = next(side for side in result.sides if side.device == 1)
    assert failed.moment == "oom"
    # PyTorch's own: reserved at the OOM (allocator.md 2.11).
    assert failed.reserved_bytes == 84_202_749_952
    assert failed.cached_bytes > 0
    assert any("not of one kind" in note for note in result.notes)
    pair = compare([("x", Analysis(snapshot, 0)), ("x", Analysis(snapshot, 2))])
    assert_sums_agree(pair)


def test_a_snapshot_is_the_same_as_itself():
    if not have(TRAINING):
        return
    assert FOLDER is not None
    snapshot = read(FOLDER / TRAINING)
    result = compare([("A", Analysis(snapshot, 0)), ("B", Analysis(snapshot, 0))])
    assert result.stacks == ()
    assert {row.difference_bytes for row in result.categories} == {0}
    assert "hold the same" in result.says
