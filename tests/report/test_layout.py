from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from oomph.report.layout import Style, cells, pad, shorten, table, wrap


def test_wide_characters_take_two_columns_and_marks_none():
    assert cells("abc") == 3
    assert cells("日本") == 4
    assert cells("e\u0301") == 1


def test_wrap_keeps_prefixes_and_breaks_long_words():
    assert wrap("aaa bbb cc", 12, "  - ") == ["  - aaa bbb", "    cc"]
    assert wrap("x" * 20, 10, "") == ["x" * 10, "x" * 10]
    assert wrap("one\ntwo", 80, "> ") == ["> one", "  two"]
    assert wrap("", 80, "  ") == []
    assert wrap("a b", 10, "| ", "| ") == ["| a b"]


@given(st.text(), st.integers(20, 120))
def test_no_line_is_longer_than_the_width(text, width):
    for line in wrap(text, width, "  "):
        assert cells(line) <= width


def test_table_aligns_columns_and_wraps_the_last():
    lines = table([("a", "bb", "one two three"), ("aaa", "b", "x")], 20)
    assert lines == ["  a    bb  one two", "           three", "  aaa  b   x"]


def test_padding_and_shortening_count_columns():
    assert pad("日", 4) == "日  "
    assert pad("7", 3, right=True) == "  7"
    assert shorten("abcdefgh", 6) == "abcd.."
    assert shorten("abc", 6) == "abc"


def test_colour_only_when_asked_for():
    assert Style(colour=True)("x", "bold") == "\x1b[1mx\x1b[0m"
    assert Style(colour=False)("x", "bold") == "x"
    assert Style(colour=True)("x", "") == "x"
