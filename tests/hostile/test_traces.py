"""Traces whose columns are allowed and mean nothing: every answer is given, whatever it is worth."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from oomph.diagnose.snapshot.build import analyse, report_of
from oomph.diagnose.trace.build import trace_report
from oomph.evidence.snapshot import from_bytes
from oomph.report.snapshot.options import SnapshotOptions
from oomph.report.snapshot.text import render_text as snapshot_text
from oomph.report.trace.html import render_html
from oomph.report.trace.json import render_json
from oomph.report.trace.markdown import render_markdown
from oomph.report.trace.text import render_text
from oomph.tracing.write import content
from oomph.units import MIB
from tests.tracing.made import Maker, out_of_memory, training

OPTIONS = SnapshotOptions(everything=True, redact=True)


def mixed(seed: int) -> dict[str, Any]:
    """A trace with its columns drawn by chance."""
    rng = np.random.default_rng(seed)
    full = bool(rng.integers(2))
    maker = Maker(capacity=250 * MIB if full else None, stacks=bool(rng.integers(2)))
    found = content(out_of_memory(maker) if full else training(maker).trace())
    more = found["oomph"]
    device = more["devices"][0]
    events, allocs = len(found["device_traces"][0]), len(device["category"])
    device["phase"] = [number for value in rng.integers(0, 9, events).tolist() for number in (value, 1)]
    steps = np.sort(rng.integers(0, 5, events)).tolist()
    device["step"] = [number for value in steps for number in (value, 1)]
    device["category"] = rng.integers(0, 8, allocs).tolist()
    device["labels"] = ["", ".", "*", "\x1b[2J", "a.0.b", "::error::x", "<script>"]
    device["label"] = rng.integers(0, 7, allocs).tolist()
    more["steps_done"] = int(rng.integers(0, 1 << 31))
    more["capacity_bytes"] = [None, 0, 1, 1 << 61][int(rng.integers(4))]
    more["uncertain_bytes"] = int(rng.integers(0, 1 << 61))
    more["torch"] = ["", "2.13", "9.9", "0.0", "x"][int(rng.integers(5))]
    if rng.integers(4) == 0:
        more["devices"] = {}
    if rng.integers(4) == 0:
        more["failed"] = {"kind": "", "text": "\x00", "traceback": "", "out_of_memory": True}
    return found


@pytest.mark.parametrize("seed", range(24))
def test_every_answer_is_given(seed: int) -> None:
    snapshot = from_bytes(pickle.dumps(mixed(seed), protocol=4), "trace.pickle")
    assert snapshot.traced is not None
    analyses = analyse(snapshot)
    plain = report_of(snapshot, analyses=analyses, what_if=["expandable_segments:True"])
    report = trace_report(plain, snapshot.traced, analyses, "train.py")
    texts = [
        snapshot_text(plain, OPTIONS),
        render_text([report, report], OPTIONS),
        render_markdown([report], OPTIONS),
        render_json([report], OPTIONS),
        render_html(report, analyses, OPTIONS),
    ]
    assert all(texts)
    assert not any("\x1b" in text for text in texts)
    assert "<script>" not in texts[2]
