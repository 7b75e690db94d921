from __future__ import annotations

from types import SimpleNamespace

from oomph.report.compare import Row, render_compare, render_rows
from oomph.report.layout import cells
from oomph.report.options import ReportOptions

ROWS = (
    Row("outcome", "failed", "failed", "Result"),
    Row("phase", "forward", "backward", "Result"),
    Row("batch size", "8", "", "Job"),
    Row("allocator settings", "expandable_segments:True,max_split_size_mb:512", "none", "Job"),
)


def test_the_whole_table():
    assert render_rows("a.log", "b.log", ROWS) == (
        "                      a.log                         b.log\n"
        "\n"
        "Result\n"
        "  outcome             failed                        failed\n"
        "* phase               forward                       backward\n"
        "\n"
        "Job\n"
        "? batch size          8                             unknown\n"
        "* allocator settings  expandable_segments:True,max  none\n"
        "                      _split_size_mb:512\n"
        "\n"
        "2 of 4 differ (*); 1 of 4 known of one side only (?).\n"
    )


def test_marks():
    assert Row("x", "a  b", "a b").mark == " "
    assert Row("x", "a", "b").mark == "*"
    assert Row("x", "", "b").mark == "?"
    assert Row("x", "", "").mark == " "


def test_nothing_differs():
    assert render_rows("a", "b", [Row("phase", "load", "load")]).endswith(
        "\nNothing that both show differs.\n"
    )
    assert render_rows("a", "b", []).endswith("Nothing that both show differs.\n")


def test_sections_keep_together():
    text = render_rows("a", "b", [Row("1", "", "", "S"), Row("2", "", "", "T"), Row("3", "", "", "S")])
    assert text.index("1 ") < text.index("3 ") < text.index("T\n") < text.index("2 ")


def test_any_object_with_titles_and_rows():
    comparison = SimpleNamespace(title_a="a", title_b="b", rows=ROWS)
    assert render_compare(comparison) == render_rows("a", "b", ROWS)


def test_hostile_cells_and_width():
    rows = [Row("x" * 200, "\x1b[31m" + "y" * 1000, "::error::z", "\x07S")]
    for width in (40, 80, 120):
        text = render_rows("/home/zqalice/a.log", "b", rows, ReportOptions(width=width))
        assert "\x1b" not in text
        assert "\x07" not in text
        assert max(cells(line) for line in text.split("\n")) <= width


def test_redaction_and_colour():
    rows = [Row("config", "/home/zqalice/x.yaml", "token=abc123 zqalice")]
    text = render_rows("/home/zqalice/a.log", "b.log", rows, ReportOptions(redact=True, colour=True))
    assert "zqalice" not in text
    assert "abc123" not in text
    assert "<file-1>.log" in text
    assert "\x1b[1m" in text
