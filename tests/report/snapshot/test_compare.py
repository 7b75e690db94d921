from __future__ import annotations

import dataclasses
import importlib
import json
from typing import Any

import pytest

from oomph.memory.stacks import Frame
from oomph.report.layout import cells
from oomph.report.snapshot import markdown
from oomph.report.snapshot.json import document, read_schema
from oomph.report.snapshot.options import SnapshotOptions
from oomph.report.snapshot.text_compare import render_comparison, signed
from oomph.report.snapshot.view import prepare_compared
from oomph.units import GIB, MIB
from tests.report.golden import assert_golden
from tests.report.snapshot import fake_comparisons, fakes

jsonschema: Any = importlib.import_module("jsonschema")  # untyped unless its stubs are installed

COMPARISONS = {"two": fake_comparisons.two_compared, "ranks": fake_comparisons.ranks_compared}


def rendered(comparison, output_format="text", **options) -> str:
    """The comparison of two reports, of a job that ran through and of one that did not."""
    chosen = SnapshotOptions(**options)
    reports = [dataclasses.replace(fakes.no_failure(), source="runs/monday.pickle"), fakes.full()]
    views, shown = prepare_compared(reports, comparison, chosen)
    assert shown is not None
    if output_format == "json":
        return document(views, shown)
    if output_format == "markdown":
        return markdown.render_comparison(shown, views)
    return render_comparison(shown, views, chosen)


@pytest.mark.parametrize("name", COMPARISONS)
def test_golden(name):
    assert_golden(f"snapshot_compare_{name}.txt", rendered(COMPARISONS[name]()))
    assert_golden(f"snapshot_compare_{name}.md", rendered(COMPARISONS[name](), "markdown"))


@pytest.mark.parametrize("name", COMPARISONS)
def test_json_is_of_the_published_shape(name):
    answer = json.loads(rendered(COMPARISONS[name](), "json"))
    jsonschema.validate(answer, json.loads(read_schema()), jsonschema.Draft202012Validator)
    sides = answer["comparison"]["sides"]
    assert {side["cached_bytes"] for side in sides} == {256 * MIB}


def test_the_numbers_of_two():
    answer = json.loads(rendered(fake_comparisons.two_compared(), "json"))
    comparison = answer["comparison"]
    assert [row["difference_bytes"] for row in comparison["categories"]] == [6 * GIB, -2 * GIB, 0]
    assert [row["difference_bytes"] for row in comparison["stacks"]] == [5 * GIB, -2 * GIB, GIB]
    innermost = answer["frames"][answer["stacks"][comparison["stacks"][0]["stack"]][0]]
    assert innermost == comparison["stacks"][0]["place"]


@pytest.mark.parametrize("width", [40, 60, 80])
@pytest.mark.parametrize("name", COMPARISONS)
def test_no_line_is_wider_than_asked_for(name, width):
    text = rendered(COMPARISONS[name](), width=width)
    assert [line for line in text.splitlines() if cells(line) > width] == []


@pytest.mark.parametrize("output_format", ["text", "markdown", "json"])
def test_redact(output_format):
    frame = Frame("f", "/home/zqalice/x.py", 3)
    base = fake_comparisons.two_compared()
    comparison = dataclasses.replace(
        base,
        says="most at f (/home/zqalice/x.py:3)",
        sides=tuple(
            dataclasses.replace(one, source=f"/data/zqalice/{one.label}.pickle") for one in base.sides
        ),
        stacks=tuple(dataclasses.replace(row, frames=(frame,), place=frame) for row in base.stacks),
        notes=("zqalice was here",),
    )
    assert "zqalice" not in rendered(comparison, output_format, redact=True)


def test_of_many_ranks_those_that_differ_are_listed():
    base = fake_comparisons.ranks_compared()
    sides = (
        *base.sides,
        *(
            fake_comparisons.side(f"rank {rank}", f"runs/rank{rank}.pickle", 20 * GIB)
            for rank in range(6, 64)
        ),
    )
    alike = tuple(side.label for side in sides if side.label != "rank 5")
    text = rendered(dataclasses.replace(base, sides=sides, alike=alike))
    assert "runs/rank5.pickle" in text
    assert "runs/rank0.pickle" in text  # the middle one
    assert "runs/rank63.pickle" not in text
    assert "and 62 more; --all lists them" in text
    assert (
        "rank 0, rank 1, rank 2, rank 3, rank 4, rank 6, rank 7, rank 8 and 55 more hold the same"
        in " ".join(text.split())
    )
    assert "runs/rank63.pickle" in rendered(
        dataclasses.replace(base, sides=sides, alike=alike), everything=True
    )


def test_a_difference_has_a_sign():
    assert [signed(size) for size in (GIB + 1, -512, 0)] == ["+1.00 GiB", "-512 bytes", "0 bytes"]
