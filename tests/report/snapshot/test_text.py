from __future__ import annotations

import dataclasses

import pytest

from oomph.report.layout import cells
from oomph.report.snapshot.options import SnapshotOptions
from oomph.report.snapshot.text import render_text
from tests.report.golden import assert_golden
from tests.report.snapshot import fakes

REPORTS = {
    "full": fakes.full,
    "fragmented": fakes.fragmented,
    "no_failure": fakes.no_failure,
    "no_history": fakes.no_history,
    "empty": fakes.empty,
    "several_devices": fakes.several_devices,
}


@pytest.mark.parametrize("name", REPORTS)
def test_golden(name):
    assert_golden(f"snapshot_{name}.txt", render_text(REPORTS[name](), SnapshotOptions()))


def test_golden_everything():
    assert_golden("snapshot_full_all.txt", render_text(fakes.full(), SnapshotOptions(everything=True)))


def test_golden_redacted():
    report = dataclasses.replace(fakes.full(), source="/home/alice/runs/node17-oom.pickle")
    assert_golden("snapshot_full_redacted.txt", render_text(report, SnapshotOptions(redact=True)))


@pytest.mark.parametrize("width", [40, 60, 80, 100])
@pytest.mark.parametrize("name", REPORTS)
def test_no_line_is_wider_than_asked_for(name, width):
    text = render_text(REPORTS[name](), SnapshotOptions(width=width, everything=True))
    too_wide = [line for line in text.splitlines() if cells(line) > width]
    assert [line for line in too_wide if "gradient_checkpointing_enable" not in line] == []


def test_ascii_has_nothing_else():
    assert render_text(fakes.fragmented(), SnapshotOptions(unicode=False)).isascii()


def test_colour_changes_no_character():
    import re

    coloured = render_text(fakes.full(), SnapshotOptions(colour=True))
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == render_text(fakes.full(), SnapshotOptions())


def test_a_failure_at_another_moment_than_the_one_shown():
    moment = dataclasses.replace(fakes.MOMENT, kind="asked for", position=12)
    text = render_text(fakes.with_device(moment=moment), SnapshotOptions())
    assert "That was at event 7,800, not at the moment shown." in text
    assert "not at the moment shown" not in render_text(fakes.full(), SnapshotOptions())


def test_the_settings_of_the_job_are_told():
    report = dataclasses.replace(fakes.full(), settings="expandable_segments:True")
    text = " ".join(render_text(report, SnapshotOptions()).split())
    assert text.endswith("Allocator settings: expandable_segments:True.")


def test_steps_are_explained_where_everything_is_asked_for():
    text = render_text(fakes.full(), SnapshotOptions(everything=True))
    assert "Steps\n  4 training steps (certain): ProfilerStep ranges\n" in text
    assert "Steps\n" not in render_text(fakes.full(), SnapshotOptions())


def test_what_was_alive_is_told_by_training_step():
    report = fakes.full()
    device = dataclasses.replace(
        report.devices[0],
        moment=dataclasses.replace(report.devices[0].moment, step=3),
        born_in={-1: 3 << 30, 0: 2 << 30, 1: 1 << 30, 2: 1 << 30, 3: 4 << 30},
    )
    text = render_text(dataclasses.replace(report, devices=(device,), shown=0), SnapshotOptions(width=200))
    assert (
        "By training step: 4.00 GiB in this one, 2.00 GiB in steps 1 to 2, 2.00 GiB in step 0, 3.00 GiB before step 0."
        in " ".join(text.split())
    )
