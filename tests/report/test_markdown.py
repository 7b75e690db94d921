from __future__ import annotations

import dataclasses
import html
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oomph.report.markdown import escape, fence, render_markdown
from oomph.report.options import ReportOptions
from tests.report import fakes
from tests.report.golden import assert_golden


@pytest.mark.parametrize("name", ["fatal", "several_ranks", "no_oom", "recovered", "look_alike", "doctored"])
def test_the_whole_page(name):
    assert_golden(f"{name}.md", render_markdown(fakes.ALL[name](), ReportOptions()))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain words, 1.31 GiB", "plain words, 1.31 GiB"),
        ("<script>x</script> & y", "&lt;script&gt;x&lt;/script&gt; &amp; y"),
        ("a|b `c` *d* __e__ [f](g) ~h~ $i$", r"a\|b \`c\` \*d\* \_\_e\_\_ \[f\](g) \~h\~ \$i\$"),
        ("# head", r"\# head"),
        ("- item", r"\- item"),
        ("1. item", r"1\. item"),
        ("---", r"\---"),
        ("ping @somebody", "ping @\u200bsomebody"),
        ("fixes #12 and org/repo!3", "fixes #\u200b12 and org/repo!\u200b3"),
        ("see https://x.example and www.y.example", "see https:\u200b//x.example and www\u200b.y.example"),
        ("two\nlines", "two lines"),
    ],
)
def test_text_outside_fences_shows_as_it_is(text, expected):
    assert escape(text) == expected


@given(st.text())
def test_escaped_text_holds_no_markup(text):
    escaped = escape(text)
    assert "<" not in escaped
    assert ">" not in escaped
    assert "\n" not in escaped
    assert not re.search(r"(?<!\\)(?:\\\\)*[`|*_\[\]]", escaped)
    assert not re.search(r"@\w", escaped)


@given(st.text(alphabet="`~ab\n", max_size=60))
def test_nothing_inside_ends_its_fence(text):
    lines = fence(text)
    ticks = lines[0]
    assert set(ticks) == {"`"}
    assert len(ticks) >= 3
    assert lines[-1] == ticks
    assert not any(re.fullmatch(rf" {{0,3}}{ticks}`*\s*", line) for line in lines[1:-1])


def test_log_text_with_fences_and_html_stays_in_its_block():
    nasty = "```` </details><img src=x onerror=alert(1)> @everyone ```"
    diagnosis = dataclasses.replace(fakes.no_oom(), other_errors=(fakes.quote(3, nasty),))
    page = render_markdown(diagnosis, ReportOptions())
    assert f"`````text\nlogs/train.log:3: {nasty}\n`````" in page


def test_html_is_only_that_of_the_details_block():
    page = render_markdown(fakes.fatal(), ReportOptions())
    outside = re.sub(r"^(`{3,})[^\n]*\n.*?^\1$", "", page, flags=re.MULTILINE | re.DOTALL)
    assert sorted(set(re.findall(r"</?[a-z]+>", outside))) == [
        "</details>",
        "</summary>",
        "<details>",
        "<summary>",
    ]
    assert html.unescape(outside).count("<details>") == 1


def test_the_environment_is_a_table():
    page = render_markdown(fakes.fatal(), ReportOptions())
    assert "| PyTorch | 2.11.0 \\[4\\] |" in page
    assert "| GPU | NVIDIA H100 80GB HBM3 \\[5\\] |" in page


def test_long_evidence_is_cut_unless_asked_for():
    facts = tuple(
        dataclasses.replace(fakes.JOB[0], value=str(number), quote=fakes.quote(number, f"line {number}"))
        for number in range(1, 100)
    )
    diagnosis = dataclasses.replace(fakes.fatal(), job=facts)
    assert "line 99" not in render_markdown(diagnosis, ReportOptions())
    assert "line 99" in render_markdown(diagnosis, ReportOptions(explain_evidence=True))
