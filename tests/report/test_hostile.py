"""No text of a log breaks a renderer or gets through as more than text."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from oomph.report.layout import cells
from oomph.report.options import ReportOptions
from tests.report.test_redact_everywhere import RENDERERS, with_text_everywhere

NASTY = (
    "\x1b[2J\x1b]0;owned\x07\x1b[8mhidden",
    "\x9b31m\x85\x00\x7f",
    "::error::x\n::set-env name=A::b\n##[add-mask]y",
    "\u202eright to left\u2066",
    "lone \udc80 surrogate and \ud83d",
    "👩‍👩‍👧 🏖️ 日本語 ﷽ e\u0301",
    "tab\tand\r\nlines\rand\u2028more",
    "```\n</details><script>alert(1)</script>",
    "x" * 300_000,
    "word " * 60_000,
    "",
    " \n ",
)
CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


@pytest.mark.parametrize("text", NASTY, ids=range(len(NASTY)))
@pytest.mark.parametrize("name", sorted(RENDERERS))
@pytest.mark.parametrize("redact", [False, True])
def test_nasty_texts(text, name, redact):
    options = ReportOptions(redact=redact, explain_evidence=True, all_incidents=True)
    output = RENDERERS[name](with_text_everywhere(text), options)
    assert not CONTROLS.search(output)
    output.encode("utf-8")
    assert len(output) < 2_000_000
    if name in ("json", "sarif"):
        json.loads(output)
    if name in ("text", "markdown"):
        assert not re.search(r"^\s*::", output, re.MULTILINE)
        assert "##[" not in output
    if name == "github":
        assert all(line.startswith(("::error ", "::warning ", "::notice ")) for line in output.splitlines())


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.text(max_size=200), st.sampled_from(sorted(RENDERERS)), st.integers(0, 200))
def test_any_text(text, name, width):
    options = ReportOptions(width=width, unicode=False, explain_evidence=True)
    diagnosis = with_text_everywhere(text)
    output = RENDERERS[name](diagnosis, options)
    assert not CONTROLS.search(output)
    assert output.endswith("\n")


@settings(max_examples=30, deadline=None)
@given(st.text(alphabet=st.characters(exclude_categories=["Cs", "Cc", "Cf"]), max_size=300))
def test_text_keeps_to_its_width_outside_of_pastes(text):
    output = RENDERERS["text"](with_text_everywhere(text), ReportOptions())
    for line in output.split("\n"):
        assert cells(line) <= 80 or line.startswith(" " * 6) or "standard input:40" in line
