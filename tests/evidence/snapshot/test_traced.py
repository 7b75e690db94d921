"""The key "oomph" of a traced snapshot: read as it was written, and passed over where it cannot be true."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from oomph.evidence.snapshot import Snapshot, from_bytes
from oomph.memory.categories import CATEGORIES, Category
from oomph.phases import Phase
from tests.evidence.snapshot.build import event, read, segment, snapshot

EVENTS = [
    event("segment_alloc", size=2 << 20),
    event("alloc", size=512),
    event("free_requested", size=512),
    event("free_completed", size=512),
]
FORWARD, BACKWARD = (tuple(Phase).index(phase) for phase in (Phase.FORWARD, Phase.BACKWARD))
ACTIVATIONS = CATEGORIES.index(Category.ACTIVATIONS)
DEVICE = {
    "phase": [FORWARD, 2, BACKWARD, 2],
    "step": [0, 3, 1, 1],
    "category": [ACTIVATIONS],
    "label": [0],
    "labels": ["layers.0"],
}
TRACED = {
    "schema_version": 1,
    "kind": "trace",
    "gpu": "A100",
    "torch": "2.9",
    "installed_torch": "2.13.0+cpu",
    "rank": 1,
    "world": 2,
    "capacity_bytes": 1 << 30,
    "steps_done": 1,
    "operators": 7,
    "seconds": 0.5,
    "windows": {0: [[1, 4]]},
    "suppressed": ["torch.save"],
    "unruled": {"aten.foo": [3, 512]},
    "uncertain_bytes": 4096,
    "assumptions": ["a loss was taken as 1"],
    "notes": ["a note"],
    "failed": {"kind": "ValueError", "text": "no", "traceback": "Traceback", "out_of_memory": False},
    "devices": {0: DEVICE},
}


def loaded(traced: object) -> Snapshot:
    content = {
        "segments": [segment()],
        "device_traces": [[dict(each) for each in EVENTS]],
        "oomph": traced,
    }
    return from_bytes(pickle.dumps(content, protocol=4), "trace.pickle")


def test_what_was_written_is_read() -> None:
    found = loaded(TRACED)
    traced = found.traced
    assert traced is not None
    assert found.notes == ()
    assert (traced.gpu, traced.torch_version, traced.rank, traced.world) == ("A100", (2, 9), 1, 2)
    assert traced.windows == {0: ((1, 4),)}
    assert traced.unruled == {"aten.foo": (3, 512)}
    assert traced.failed is not None
    assert traced.failed.kind == "ValueError"
    columns = traced.columns[0]
    assert columns.phase.tolist() == [FORWARD, FORWARD, BACKWARD, BACKWARD]
    assert columns.step.tolist() == [0, 0, 0, 1]
    assert columns.category.tolist() == [ACTIVATIONS]
    assert [columns.labels[number] for number in columns.label.tolist()] == ["layers.0"]
    assert columns.phase.dtype == np.int8


def test_an_ordinary_snapshot_is_no_trace() -> None:
    assert read(snapshot()).traced is None


def endless() -> list[Any]:
    result: list[Any] = []
    result.append(result)
    return result


HOSTILE: list[object] = [
    None,
    [],
    "trace",
    {},
    {**TRACED, "schema_version": 2},
    {**TRACED, "schema_version": True},
    {**TRACED, "gpu": 7},
    {**TRACED, "rank": 2},
    {**TRACED, "world": -1},
    {**TRACED, "capacity_bytes": 1 << 62},
    {**TRACED, "seconds": "long"},
    {**TRACED, "windows": {0: [[3, 1]]}},
    {**TRACED, "windows": {0: [[0, 5]]}},
    {**TRACED, "windows": {"0": [[0, 1]]}},
    {**TRACED, "suppressed": [1]},
    {**TRACED, "suppressed": endless()},
    {**TRACED, "unruled": {"aten.foo": [1]}},
    {**TRACED, "unruled": {"aten.foo": [1, -1]}},
    {**TRACED, "failed": {"kind": "ValueError"}},
    {**TRACED, "devices": {1: DEVICE}},
    {**TRACED, "devices": {0: endless()}},
    *(
        {**TRACED, "devices": {0: {**DEVICE, key: value}}}
        for key, value in [
            ("phase", [FORWARD, 3]),
            ("phase", [FORWARD, 4, BACKWARD]),
            ("phase", [99, 4]),
            ("phase", [FORWARD, -4, FORWARD, 8]),
            ("phase", [FORWARD, 1 << 62, FORWARD, 1 << 62, FORWARD, 1 << 62, FORWARD, 1 << 62]),
            ("phase", [0.5, 4]),
            ("phase", endless()),
            ("step", [1, 2, 0, 2]),
            ("step", [1 << 40, 4]),
            ("category", []),
            ("category", [99]),
            ("category", [-1]),
            ("category", [1 << 70]),
            ("label", [1]),
            ("label", ["layers.0"]),
            ("labels", "layers.0"),
            ("before", [1]),
            ("before", {1: [0]}),
            ("before", {1: [0, 1]}),
            ("before", {1: [99, 0]}),
            ("before", {-1: [0, 0]}),
            ("before", {"1": [0, 0]}),
        ]
    ),
]


@pytest.mark.parametrize("traced", HOSTILE, ids=range(len(HOSTILE)))
def test_what_cannot_be_true_is_passed_over_with_a_note(traced: object) -> None:
    found = loaded(traced)
    assert found.traced is None
    assert len(found.notes) == 1
    assert "passed over" in found.notes[0]
    assert len(found.devices[0].timeline) == 4
