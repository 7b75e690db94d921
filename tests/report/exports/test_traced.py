"""A part of a trace keeps what the trace knows."""

from __future__ import annotations

import csv
import pickle
from pathlib import Path

from oomph.diagnose.snapshot.build import analyse, report_of
from oomph.evidence.snapshot import from_bytes, read
from oomph.report.exports import export
from oomph.tracing.model import Trace
from oomph.tracing.write import content
from oomph.units import MIB
from tests.tracing.made import Maker, out_of_memory, training


def part_of(trace: Trace, folder: Path, *, redact: bool = False, first: int | None = None) -> Path:
    """The smaller snapshot of a trace, from event `first` on or around its peak."""
    snapshot = from_bytes(pickle.dumps(content(trace), protocol=4), "trace.pickle")
    target = folder / "part.pickle"
    last = None if first is None else len(snapshot.devices[0].timeline)
    export(target, analyse(snapshot)[0], first=first, last=last, redact=redact)
    return target


def shares(path: Path) -> dict[str, int]:
    snapshot = read(path)
    assert snapshot.traced is not None
    assert snapshot.notes == ()
    return {str(share.category): share.bytes // MIB for share in report_of(snapshot).devices[0].shares}


def test_blocks_from_before_a_part_keep_their_categories(tmp_path: Path) -> None:
    maker = training(Maker())
    # From the last step on; its peak is that of the step before (made.training).
    first = next(place for place, step in enumerate(maker.columns[1]) if step == 2)
    part = part_of(maker.trace(), tmp_path, first=first)
    assert shares(part) == {
        "parameters": 100,
        "optimizer state": 200,
        "activations": 200,
        "temporaries": 30,
        "gradients": 60,
    }
    steps = report_of(read(part)).devices[0].steps
    assert steps is not None
    assert steps.count == 1


def test_a_part_around_the_peak(tmp_path: Path) -> None:
    assert shares(part_of(training(Maker()).trace(), tmp_path))["optimizer state"] == 200


def test_a_part_that_ends_with_a_failure_says_so(tmp_path: Path) -> None:
    maker = Maker(capacity=250 * MIB)
    trace = out_of_memory(maker)
    # What was in use is given back on the way out, behind the part.
    maker.free(*maker.blocks)
    part = part_of(maker.trace(failed=trace.failed), tmp_path)
    assert len(read(part).devices[0].timeline) < len(maker.events)
    report = report_of(read(part))
    assert report.exit_code == 1
    failure = report.devices[0].failure
    assert failure is not None
    assert not failure.caught


def test_a_redacted_part_has_no_names(tmp_path: Path) -> None:
    notes = ("it ran in /home/someone/project",)
    part = part_of(training(Maker()).trace(notes=notes), tmp_path, redact=True)
    assert b"someone" not in part.read_bytes()
    assert read(part).traced is not None


def test_a_table_of_a_trace_has_labels(tmp_path: Path) -> None:
    snapshot = from_bytes(pickle.dumps(content(training(Maker()).trace()), protocol=4), "trace.pickle")
    target = tmp_path / "events.csv"
    export(target, analyse(snapshot)[0])
    with target.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    told = {(row["kind"], row["category"], row["label"]) for row in rows}
    assert ("alloc", "activations", "layers.0.mlp") in told
    assert ("free_requested", "temporaries", "aten.mm") in told
    assert ("segment_alloc", "", "") in told
