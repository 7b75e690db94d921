from __future__ import annotations

import dataclasses

import pytest

from oomph.memory.categories import Category
from oomph.report.snapshot.markdown import render_markdown
from oomph.report.snapshot.options import SnapshotOptions
from tests.report.golden import assert_golden
from tests.report.snapshot import fakes
from tests.report.snapshot.test_text import REPORTS


@pytest.mark.parametrize("name", REPORTS)
def test_golden(name):
    assert_golden(f"snapshot_{name}.md", render_markdown(REPORTS[name](), SnapshotOptions()))


def test_tables_are_folded_and_every_fold_ends():
    text = render_markdown(fakes.full(), SnapshotOptions())
    assert text.count("<details>") == text.count("</details>") == text.count("<summary>") == 3


def test_a_snapshot_cannot_draw():
    frame = dataclasses.replace(fakes.BLOCK, function="</details><script>|`@alice", file="x|y`.py")
    holder = fakes.holder(2**30, 1, Category.UNKNOWN, (frame,), place=frame)
    text = render_markdown(fakes.with_device(holders=(holder,), failure=None), SnapshotOptions())
    assert "<script>" not in text
    assert "@alice" not in text
    row = next(line for line in text.splitlines() if "script" in line)
    assert row.replace("\\|", "").count("|") == 6
