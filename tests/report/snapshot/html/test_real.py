"""The pages of real snapshots in a real browser. Where the snapshots are: tests/conformance/test_snapshots.py."""

from __future__ import annotations

import json

import pytest

from oomph.diagnose.snapshot.build import analyse, report_of
from oomph.evidence.snapshot import read
from oomph.report.options import ReportOptions
from oomph.report.snapshot.html import render_html
from tests.conformance.test_snapshots import FOLDER

if FOLDER is not None:
    LISTED = json.loads((FOLDER / "manifest.json").read_text())

    @pytest.mark.parametrize("listed", LISTED, ids=lambda one: one["file"])
    def test_it_opens_and_its_peaks_are_those_of_the_manifest(listed, open_page):
        loaded = read(FOLDER / listed["file"])
        analyses = analyse(loaded)
        opened = open_page(render_html(report_of(loaded, analyses=analyses), analyses, ReportOptions()))
        assert opened.requests == [opened.url]
        peaks = zip(listed["peak_reserved_bytes"], listed["peak_allocated_bytes"], strict=True)
        for number, (reserved, allocated) in enumerate(peaks):
            if len(listed["peak_reserved_bytes"]) > 1:
                opened.page.select_option("#device", index=number)
            drawn = opened.page.evaluate(
                """() => { const t = oomph.timeline;
                return [Math.max(...t.reserved), Math.max(...t.total), oomph.flame.root.blocks]; }"""
            )
            assert drawn[0] == reserved
            # A block may keep a rest of up to 1 MiB that could not be split off; the curve is of rounded requests.
            assert allocated - drawn[2] * (1 << 20) <= drawn[1] <= allocated
        assert opened.complaints == []
