"""A real run's snapshot beside a trace of the same script."""

from __future__ import annotations

import importlib
import json
import pickle
from typing import Any

from oomph.diagnose.snapshot.build import analyse, report_of
from oomph.diagnose.snapshot.compare import compare
from oomph.diagnose.snapshot.compare_model import SnapshotComparison
from oomph.evidence.snapshot import from_bytes
from oomph.memory.categories import Category
from oomph.report.snapshot.json import document, read_schema
from oomph.report.snapshot.markdown import render_comparison as as_markdown
from oomph.report.snapshot.options import SnapshotOptions
from oomph.report.snapshot.text_compare import render_comparison
from oomph.report.snapshot.view import SnapshotView, prepare_compared
from oomph.tracing.model import Trace
from oomph.tracing.write import content
from oomph.units import MIB
from tests.tracing.made import Maker, training

jsonschema: Any = importlib.import_module("jsonschema")  # untyped unless its stubs are installed

OPTIONS = SnapshotOptions()


def compared(
    real: Trace, traced: Trace, cut: int = 0
) -> tuple[SnapshotComparison, tuple[list[SnapshotView], SnapshotComparison | None]]:
    """The comparison of what a real run's file would hold (from event `cut` on) with a trace."""
    plain = {key: value for key, value in content(real).items() if key != "oomph"}
    plain["device_traces"] = [plain["device_traces"][0][cut:]]
    snapshots = [
        from_bytes(pickle.dumps(plain, protocol=4), "real.pickle"),
        from_bytes(pickle.dumps(content(traced), protocol=4), "traced.pickle"),
    ]
    analyses = [analyse(snapshot)[0] for snapshot in snapshots]
    reports = [report_of(snapshot, analyses=[one]) for snapshot, one in zip(snapshots, analyses, strict=True)]
    found = compare([("A", analyses[0]), ("B", analyses[1])])
    return found, prepare_compared(reports, found, OPTIONS)


def test_the_same_run_is_the_same_event_by_event() -> None:
    found, (views, shown) = compared(training(Maker()).trace(), training(Maker()).trace())
    assert found.divergence is not None
    assert found.divergence.same
    assert [side.traced for side in found.sides] == [False, True]
    assert shown is not None
    # 21 requests and 15 frees (made.training).
    assert "All 36 requests and frees are the same" in render_comparison(shown, views, OPTIONS)


def test_the_first_divergence_is_told_with_its_lines() -> None:
    maker = training(Maker(), steps=1)
    maker.alloc("extra", 5 * MIB, Category.ACTIVATIONS, line=77)
    maker.free("extra", line=78)
    found, (views, shown) = compared(training(Maker(), steps=1).trace(), maker.trace())
    assert found.divergence is not None
    assert (found.divergence.only_real, found.divergence.only_traced) == (0, 2)
    assert shown is not None
    text = render_comparison(shown, views, OPTIONS)
    assert "- the real run ends" in text
    assert "- the trace asks for 5.00 MiB (event" in text
    assert "train.py:77 (step)" in text.replace("\n    ", " ")
    assert "asks for 5.00 MiB" in as_markdown(shown, views)
    answer = json.loads(document(views, shown))
    jsonschema.validate(answer, json.loads(read_schema()), jsonschema.Draft202012Validator)
    told = answer["comparison"]["divergence"]
    assert (told["equal_before"], told["events_real"], told["events_traced"]) == (16, 16, 18)
    assert told["traced"]["what"] == "alloc"


def test_a_ring_that_lost_its_beginning_is_found_in_the_trace() -> None:
    real = training(Maker())
    # The ring lost everything before the last 30 events.
    found, _ = compared(real.trace(), training(Maker()).trace(), cut=len(real.events) - 30)
    assert found.divergence is not None
    assert found.divergence.same
    assert found.divergence.began_at >= len(real.events) - 30
    assert any("its beginning was taken" in note for note in found.notes)


def test_of_a_trace_the_part_that_the_script_recorded_is_compared() -> None:
    """The script recorded its first step only: 400 MiB at most, where the states are made; later ones need 590."""
    real = training(Maker(), steps=1)
    trace = training(Maker())
    window = (0, len(real.events))
    found, _ = compared(real.trace(), trace.trace(windows={0: (window,)}))
    assert [side.allocated_bytes for side in found.sides] == [400 * MIB, 400 * MIB]
    assert [side.peak_allocated_bytes for side in found.sides] == [400 * MIB, 400 * MIB]
    assert found.divergence is not None
    assert found.divergence.same


def test_two_traces_or_two_real_runs_have_no_divergence() -> None:
    trace = training(Maker()).trace()
    snapshot = from_bytes(pickle.dumps(content(trace), protocol=4), "a.pickle")
    other = from_bytes(pickle.dumps(content(trace), protocol=4), "b.pickle")
    found = compare([("A", analyse(snapshot)[0]), ("B", analyse(other)[0])])
    assert found.divergence is None
