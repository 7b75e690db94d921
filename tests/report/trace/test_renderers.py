"""A trace's report as text, JSON, Markdown and HTML."""

from __future__ import annotations

import importlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from oomph.diagnose.snapshot.build import analyse, report_of
from oomph.diagnose.snapshot.moments import fatal_oom
from oomph.diagnose.trace.build import trace_report
from oomph.diagnose.trace.model import TraceReport
from oomph.memory.categories import Category
from oomph.report.snapshot.options import SnapshotOptions
from oomph.report.trace.html import render_html
from oomph.report.trace.json import read_schema, render_json, schema_text
from oomph.report.trace.markdown import render_markdown
from oomph.report.trace.text import render_text
from oomph.tracing.model import Failed, Trace
from oomph.units import MIB
from tests.diagnose.snapshot.test_exact import snapshot_of
from tests.tracing.made import Maker, one_more_step, out_of_memory, training

jsonschema: Any = importlib.import_module("jsonschema")  # untyped unless its stubs are installed

DOCS = Path(__file__).parents[3] / "docs" / "schema"
OPTIONS = SnapshotOptions()
MORE: dict[str, Any] = {
    "suppressed": ("torch.save to /home/someone/out.pt",),
    "unruled": {"aten.foo": (3, 5 * MIB)},
    "assumptions": ("a loss was taken as 1.0",),
    "notes": ("torch.compile was left out",),
}


def reported(trace: Trace, command: str = "train.py --batch 8") -> TraceReport:
    snapshot = snapshot_of(trace)
    analyses = analyse(snapshot)
    return trace_report(report_of(snapshot, analyses=analyses), snapshot.traced, analyses, command)


def fits(**more: Any) -> TraceReport:
    return reported(training(Maker(capacity=2048 * MIB)).trace(**{**MORE, **more}))


def fails() -> TraceReport:
    return reported(out_of_memory(Maker(capacity=250 * MIB)))


def unsure() -> TraceReport:
    return fits(uncertain_bytes=1500 * MIB)


def broken() -> TraceReport:
    return fits(failed=Failed("ValueError", "no such file", "Traceback\n  ...\n", False))


REPORTS = {"fits": fits, "fails": fails, "unsure": unsure, "broken": broken}


@pytest.mark.parametrize("name", REPORTS)
@pytest.mark.parametrize("width", [40, 80, 100])
def test_lines_fit_the_terminal(name: str, width: int) -> None:
    text = render_text([REPORTS[name]()], SnapshotOptions(width=width))
    assert max(map(len, text.splitlines())) <= width


def test_the_first_screen_answers() -> None:
    screen = "\n".join(render_text([fits()], OPTIONS).splitlines()[:40])
    # Segments of 650 MiB, whatever the order of addresses (test_trace_report).
    assert screen.startswith("It fits: GPU 0 needs 650.00 MiB in backward, of 2.00 GiB")
    assert "optimizer state" in screen
    assert "train.py:30" in screen


def test_what_does_not_fit_names_phase_and_line() -> None:
    text = " ".join(render_text([fails()], OPTIONS).split())
    assert text.startswith(
        "It does not fit: a request of 100.00 MiB fails in forward at project/train.py:31 (step)"
    )
    assert "Why: full (certain)" in text


def test_what_may_not_fit_says_why() -> None:
    text = " ".join(render_text([unsure()], OPTIONS).split())
    assert text.startswith(
        "It may not fit: with up to 1.46 GiB that kernels may need on top, memory runs out in forward in 8 of 8 orders"
    )
    assert "+1.46 GiB" in text


def test_what_grows_will_not_fit() -> None:
    """Each step keeps 20 MiB: 300 MiB of weights and states, and at most 290 more in a step, of 900."""
    maker = Maker(capacity=900 * MIB)
    training(maker, steps=1)
    for step in range(1, 6):
        one_more_step(maker, step)
        maker.alloc(f"kept{step}", 20 * MIB, Category.ACTIVATIONS, "head", line=70)
    report = reported(maker.trace())
    assert report.fits is True
    assert report.exit_code == 1
    text = " ".join(render_text([report], OPTIONS).split())
    assert text.startswith("It fits for the 6 steps traced, but memory grows by 20.00 MiB in each: step")


def test_an_exception_of_the_scripts_own_comes_first() -> None:
    text = render_text([broken()], OPTIONS)
    assert text.startswith("The script ended by itself, with ValueError (no such file)")


def test_why_it_is_for_a_part_of_the_script_comes_first_and_once() -> None:
    stopped = replace(fits(), unfinished="The script ended itself with exit code 3.")
    text = " ".join(render_text([stopped], OPTIONS).split())
    assert text.startswith("The script ended itself with exit code 3. As far as it ran: It fits: GPU 0")
    assert text.count("exit code 3") == 1
    own = render_text([replace(broken(), unfinished="flash_attn needs a real GPU.")], OPTIONS)
    assert own.startswith("flash_attn needs a real GPU. The script ended by itself, with ValueError")


def test_what_it_rests_on_is_told() -> None:
    text = " ".join(render_text([fits()], OPTIONS).split())
    assert "aten.foo (largest result 5.00 MiB)" in text
    assert "Not written and not sent: torch.save" in text
    assert "a loss was taken as 1.0" in text
    assert "torch.compile was left out" in text
    assert "It speaks for PyTorch 2.13, on a GPU like the A100 80GB." in text


def test_another_torch_than_the_installed_one_is_named() -> None:
    assert "PyTorch 2.6, traced with 2.13.0+cpu" in " ".join(
        render_text([fits(torch="2.6")], OPTIONS).split()
    )


def test_several_ranks_have_a_table() -> None:
    ranks = [fits(rank=rank, world=2) for rank in range(2)]
    text = render_text(ranks, OPTIONS)
    assert "All ranks" in text
    assert "rank 0 of 2" in text
    assert "All ranks" in render_markdown(ranks, OPTIONS)


@pytest.mark.parametrize("name", REPORTS)
def test_every_document_is_valid(name: str) -> None:
    schema = json.loads(read_schema())
    jsonschema.Draft202012Validator.check_schema(schema)
    answer = json.loads(render_json([REPORTS[name]()], OPTIONS))
    jsonschema.validate(answer, schema, jsonschema.Draft202012Validator)
    assert answer["exit_code"] == {"fits": 0, "fails": 1, "unsure": 1, "broken": 2}[name]


def test_the_published_schema_is_that_of_the_code() -> None:
    message = (
        "run: python -c 'from oomph.report.trace.json import schema_text; print(schema_text(), end=\"\")' "
        "> src/oomph/report/schema/trace.schema.json, and copy it to docs/schema/"
    )
    assert json.loads(read_schema()) == json.loads(schema_text()), message
    assert (DOCS / "trace.schema.json").read_text(encoding="utf-8") == read_schema(), message


def test_the_numbers_in_json() -> None:
    trace = json.loads(render_json([fits()], OPTIONS))["traces"][0]
    assert (trace["fits"], trace["capacity_bytes"], trace["steps_done"]) == (True, 2048 * MIB, 3)
    device = trace["devices"][trace["shown"]]
    assert device["peak"]["allocated_bytes"] == 590 * MIB
    assert [row["phase"] for row in device["phases"]] == ["load", "forward", "backward", "optimizer"]
    holder = trace["snapshot"]["devices"][0]["holders"][-1]
    assert (holder["how"], holder["certainty"]) == ("trace", "certain")


def test_markdown_has_the_peaks() -> None:
    text = render_markdown([fits()], OPTIONS)
    assert text.startswith("### It fits")
    assert "| load | 100.00 MiB |" in text


def test_html_has_the_answer_in_front_of_the_page() -> None:
    trace = training(Maker(capacity=2048 * MIB)).trace(**MORE)
    snapshot = snapshot_of(trace)
    analyses = analyse(snapshot)
    report = trace_report(report_of(snapshot, analyses=analyses), snapshot.traced, analyses, "train.py <b>")
    page = render_html(report, analyses, OPTIONS)
    assert page.index("It fits: GPU 0") < page.index("no request failed")
    assert "train.py &lt;b&gt;" in page
    assert "<b>" not in page


def test_redaction_reaches_every_text() -> None:
    report = reported(
        training(Maker(capacity=2048 * MIB)).trace(**MORE), "/home/someone/project/train.py --batch 8"
    )
    options = SnapshotOptions(redact=True)
    for text in (
        render_text([report], options),
        render_json([report], options),
        render_markdown([report], options),
    ):
        assert "someone" not in text


def test_control_characters_do_not_reach_the_terminal() -> None:
    report = fits(notes=("\x1b[31mred\x1b[0m ::set-env name=x::",), gpu="A\x1b[2J100")
    for text in (render_text([report], OPTIONS), render_markdown([report], OPTIONS)):
        assert "\x1b" not in text


def test_the_failed_request_is_the_moment() -> None:
    snapshot = snapshot_of(out_of_memory(Maker(capacity=250 * MIB)))
    assert fatal_oom(snapshot.devices[0].timeline) is not None
