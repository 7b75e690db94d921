from __future__ import annotations

import pytest

from oomph.report.clean import clean, cut, flat, without_commands


@pytest.mark.parametrize(
    ("dirty", "expected"),
    [
        ("plain", "plain"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x9b31mred", "red"),
        ("\x1b]0;title\x07rest", "]0;titlerest"),
        ("\x1b[2J\x1b[1;1Hgone", "gone"),
        ("\x1b\x1b[31m[31mnested", "[31mnested"),
        ("a\x00b\x08c\x7fd\x85e", "abcde"),
        ("a\r\nb\rc\u2028d", "a\nb\nc\nd"),
        ("tab\tstays", "tab\tstays"),
        ("\u202eevil\u2066", "evil"),
        ("\ufeffmark", "mark"),
        ("bad \udcff byte", "bad \ufffd byte"),
        ("family 👩‍👩‍👧 é 日本", "family 👩‍👩‍👧 é 日本"),
    ],
)
def test_controls_go_and_text_stays(dirty, expected):
    assert clean(dirty) == expected


def test_cut_says_how_much_is_missing():
    assert cut("x" * 10, 10) == "x" * 10
    assert cut("x" * 1510, 10) == "xxxxxxxxxx ... [1,500 more characters]"
    # " ... [2 more characters]" is 24 characters long.
    assert cut("x" * 12, 10) == "x" * 12
    assert cut("x" * 35, 10) == "x" * 35
    assert cut("x" * 36, 10) == "xxxxxxxxxx ... [26 more characters]"


def test_flat_is_one_line():
    assert flat(" a\n\tb  c ") == "a b c"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("::error::x", ": :error::x"),
        ("a\n   ::set-env name=A::b", "a\n   : :set-env name=A::b"),
        ("at::native::add", "at::native::add"),
        ("x ##[group]y", "x # #[group]y"),
        ("##vso[task.setvariable]y", "# #vso[task.setvariable]y"),
        ("## heading", "## heading"),
    ],
)
def test_no_line_is_a_ci_command(line, expected):
    assert without_commands(line) == expected
