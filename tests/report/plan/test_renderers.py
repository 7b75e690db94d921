"""Text, JSON, Markdown and HTML of plans."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import importlib
import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from oomph.job.model import Job, Model
from oomph.phases import Phase
from oomph.predict.model import Term
from oomph.report.plan import wire
from oomph.report.plan.html import render_html
from oomph.report.plan.json import job_table, read_schema, render_json, schema_text
from oomph.report.plan.markdown import render_markdown
from oomph.report.plan.text import PlanOptions, render_text
from tests.report.golden import assert_golden
from tests.report.plan.plans import GIB, JOB, TERMS, plan, played, rank, refused

jsonschema: Any = importlib.import_module("jsonschema")  # untyped unless its stubs are installed

DOCS = Path(__file__).parents[3] / "docs" / "schema"

PLANS = {
    "fits": plan(),
    "unsure": plan(None, 36, Phase.BACKWARD, ranks=(rank(replay=played(3)),)),
    "fails": plan(False, 24, Phase.FORWARD),
    "unknown": plan(None, None, host=None, assumptions=(), notes=()),
    "stages": plan(ranks=(rank(ranks="ranks 0-3"), rank(ranks="ranks 4-7", first=4, played=False))),
    "refused": refused("unsupported: fp8 of TransformerEngine"),
}
#: What a file could put into a name.
HOSTILE = "\x1b[31m</style><script>alert(1)</script>|`x`\n::set-env a=b\u202e"


def hostile():
    name = Model(name=HOSTILE, family="llama")
    terms = (Term(HOSTILE, TERMS[0].category, GIB, "x"),)
    bad = rank(ranks=HOSTILE)
    peak = dataclasses.replace(bad.phases[Phase.BACKWARD], where=HOSTILE, terms=terms)
    bad = dataclasses.replace(bad, phases={**bad.phases, Phase.BACKWARD: peak})
    job = replace(JOB, model=name)
    return dataclasses.replace(plan(ranks=(bad, bad)), job=job, notes=(HOSTILE,), assumptions=(HOSTILE,))


@pytest.mark.parametrize("name", sorted(PLANS))
def test_golden_texts(name) -> None:
    assert_golden(f"plan_{name}.txt", render_text(PLANS[name], PlanOptions()))


def test_golden_markdown_and_explained_text() -> None:
    assert_golden("plan_stages.md", render_markdown(PLANS["stages"]))
    assert_golden("plan_explained.txt", render_text(PLANS["fits"], PlanOptions(everything=True)))


@pytest.mark.parametrize("name", sorted(PLANS))
@pytest.mark.parametrize("width", [40, 60, 80, 100])
def test_no_line_is_wider_than_asked(name, width) -> None:
    for everything in (False, True):
        text = render_text(PLANS[name], PlanOptions(width=width, everything=everything))
        assert max(map(len, text.splitlines())) <= width
        assert text.endswith("\n")
        assert not text.endswith("\n\n")


def test_colour_only_where_it_is_asked_for() -> None:
    assert "\x1b" not in render_text(PLANS["fits"], PlanOptions())
    assert render_text(PLANS["fits"], PlanOptions(colour=True)).startswith("\x1b[1;32mIt fits")
    assert render_text(PLANS["fails"], PlanOptions(colour=True)).startswith("\x1b[1;31mIt does not fit")


def test_the_rank_that_is_asked_for_is_shown() -> None:
    both = PLANS["stages"]
    assert "Peaks of ranks 4-7" in render_text(both, PlanOptions(), both.ranks[1])
    assert json.loads(render_json(both, both.ranks[1]))["shown"] == 1
    assert "Peaks (ranks 4-7)" in render_markdown(both, both.ranks[1])
    assert "Peaks of ranks 4-7" in render_html(both, both.ranks[1])


@pytest.mark.parametrize("name", sorted(PLANS))
def test_documents_are_valid(name) -> None:
    schema = json.loads(read_schema())
    jsonschema.Draft202012Validator.check_schema(schema)
    document = json.loads(render_json(PLANS[name]))
    jsonschema.validate(document, schema, jsonschema.Draft202012Validator)
    msgspec.convert(document, wire.Report)


def test_the_published_schema_is_that_of_the_types() -> None:
    message = (
        "Otherwise: python -c \"from oomph.report.plan.json import schema_text; print(schema_text(), end='')\" "
        "> src/oomph/report/schema/plan.schema.json, and copy it to docs/schema/"
    )
    assert schema_text() == read_schema(), message
    assert (DOCS / "plan.schema.json").read_text(encoding="utf-8") == read_schema(), message


def test_numbers_of_the_document() -> None:
    document = json.loads(render_json(PLANS["unsure"]))
    assert (document["schema_version"], document["exit_code"], document["fits"]) == ("1", 1, None)
    assert (document["fails_in"], document["capacity_bytes"]) == ("backward", 38 * GIB)
    assert document["room_bytes"] == 36 * GIB  # 2 for NCCL
    one = document["ranks"][document["shown"]]
    assert (one["peak_phase"], one["low_bytes"], one["high_bytes"]) == ("backward", 35 * GIB, 39 * GIB)
    backward = one["phases"][-1]
    assert sum(term["bytes"] for term in backward["terms"]) == backward["allocated_bytes"] == 36 * GIB
    assert one["replay"] == {"orders_played": 8, "orders_failed": 3, "fits": False, "fails_in": "backward"}
    assert one["outside"]["parts"][0]["name"] == "CUDA context"
    assert document["host"]["available_bytes"] == 680 * GIB
    assert json.loads(render_json(PLANS["unknown"]))["host"] is None
    assert json.loads(render_json(PLANS["refused"]))["exit_code"] == 2


def test_the_job_of_the_document_reads_like_a_configuration() -> None:
    from oomph.job.model import Dimension

    job = Job(
        model=Model("m", "llama", (Dimension("hidden_size", 64), Dimension("tie_word_embeddings", True)))
    )
    table = job_table(job)
    assert table["model"]["config"] == {"hidden_size": 64, "tie_word_embeddings": True}
    assert job_table(JOB)["framework"]["versions"] == {"torch": "2.9", "transformers": "5.1"}


def test_no_name_can_steer_a_terminal_or_a_page() -> None:
    text = render_text(hostile(), PlanOptions(everything=True))
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert not re.search(r"^\s*::", text, re.MULTILINE)
    markdown = render_markdown(hostile(), everything=True)
    assert "<script" not in markdown
    assert not re.search(r"^\s*::", markdown, re.MULTILINE)
    page = render_html(hostile())
    assert "<script" not in page
    assert "\x1b" not in page
    json.loads(render_json(hostile()))


class Reader(HTMLParser):
    """Notes the elements that are open, and what is written in each kind."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()

    def handle_starttag(self, tag, attrs):
        self.seen.add(tag)
        if tag not in ("meta", "link"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.mark.parametrize("name", [*sorted(PLANS), "hostile"])
def test_the_page_is_whole_and_fetches_nothing(name) -> None:
    page = render_html(PLANS.get(name) or hostile())
    reader = Reader()
    reader.feed(page)
    assert reader.open == []
    assert {"table", "h1"} <= reader.seen or name == "refused"
    assert not {"script", "img", "iframe"} & reader.seen
    style = page.partition("<style>")[2].partition("</style>")[0]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert f"sha256-{digest}" in page
    assert "default-src &#x27;none&#x27;" in page


def test_the_text_needs_neither_numpy_nor_the_parsers_of_logs() -> None:
    code = (
        "import sys; import oomph.report.plan.text, oomph.report.plan.json; "
        "assert not {'numpy', 'torch', 'oomph.evidence', 'oomph.diagnose'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
