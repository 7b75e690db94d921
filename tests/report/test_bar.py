from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oomph.memory.ledger import Ledger
from oomph.report.bar import contradictions, ledger_table, render_bar
from oomph.report.layout import cells
from oomph.report.options import ReportOptions
from oomph.units import GIB, Amount
from tests.report.fakes import ledger

ASCII = ReportOptions(unicode=False)


def exact(**gib: float) -> Ledger:
    return Ledger.build({f"{name}_bytes": Amount(int(size * GIB)) for name, size in gib.items()})


def row(lines: list[str], number: int = 0) -> str:
    return lines[number][2:]


def test_the_bar_is_proportional_and_as_wide_as_the_page():
    # 76 columns for 76 GiB: one cell for each GiB
    lines = render_bar(exact(capacity=76, free=6, process=60, allocated=40, cached=15), ASCII)
    assert row(lines) == "o" * 10 + "%" * 5 + "#" * 40 + "=" * 15 + "." * 6


def test_missing_bytes_stand_behind_the_free_ones():
    # 70 GiB and 6 GiB missing on 76 cells
    lines = render_bar(exact(capacity=70, free=4, allocated=60, reserved=60, segment=10), ASCII)
    assert row(lines) == "%" * 6 + "#" * 60 + "." * 4 + "x" * 6
    assert row(lines, 1) == " " * 48 + "request 10.00 GiB +--------+"
    assert lines[-1] == "  Asked for 10.00 GiB, 4.00 GiB was free: 6.00 GiB short."


def test_a_huge_request_is_cut():
    lines = render_bar(exact(capacity=10, free=5, allocated=5, reserved=5, segment=1000), ASCII)
    assert row(lines).endswith("x" * (76 // 5))
    assert lines[1].endswith("->")
    assert cells(lines[0]) == 78


def test_a_request_that_fits_is_marked_inside_free():
    lines = render_bar(exact(capacity=76, free=38, allocated=38, reserved=38, segment=2), ASCII)
    assert row(lines) == "#" * 38 + "." * 38
    assert row(lines, 1) == " " * (38 - 17) + "request 2.00 GiB ++"
    assert "enough for it" in "\n".join(lines)


def test_a_limit_is_marked_from_where_torch_begins():
    lines = render_bar(exact(capacity=76, free=50, process=26, reserved=20, allocated=20, limit=30), ASCII)
    # 6 cells outside, then 30 of the limit: its mark is above the 36th cell
    assert row(lines, 1).startswith("%" * 6 + "#" * 20 + "." * 50)
    assert lines[0].index("v") == 2 + 35
    assert "limit 30.00 GiB" in lines[0]


def test_every_number_says_how_it_is_known():
    text = "\n".join(
        render_bar(
            ledger(capacity="23.70 GiB", free="358.75 MiB", allocated="21.86 GiB", reserved="22.13 GiB"),
            ASCII,
        )
    )
    assert re.search(r"# allocated +21\.86 GiB  printed", text)
    assert re.search(r"= cached +276\.48 MiB  = reserved - allocated, \+- 10\.24 MiB", text)
    assert re.search(r"% not PyTorch's +1\.22 GiB  = capacity - free - reserved; outside \+", text)
    assert re.search(r"capacity +23\.70 GiB  printed", text)


def test_unknown_is_said():
    text = "\n".join(render_bar(exact(allocated=13, limit=18, request=0.5), ASCII))
    for name in ("not PyTorch's", "cached", "free", "capacity"):
        assert re.search(rf"{name} +unknown", text)
    assert "Asked for 512.00 MiB; how much was free is unknown." in text


def test_a_difference_below_its_rounding_is_an_upper_end():
    text = "\n".join(
        render_bar(
            ledger(capacity="10.00 GiB", free="1.00 GiB", process="9.00 GiB", reserved="9.00 GiB"), ASCII
        )
    )
    # three numbers of two decimals in GiB: 3 x 5.12 MiB
    assert re.search(r"other processes +<= 15\.36 MiB  = capacity - free - process", text)


def test_only_a_request():
    assert render_bar(exact(request=3), ASCII) == ["  Asked for 3.00 GiB; how much was free is unknown."]
    assert render_bar(Ledger(), ASCII) == []


def test_contradictions_are_told_once():
    one = ledger(capacity="10.00 GiB", allocated="8.00 GiB", reserved="1.00 GiB")
    told = contradictions(one, ASCII)
    assert told[0] == "  These numbers cannot all be true as printed:"
    assert "allocated is" in told[1]
    known = [f"{one.problems[0].text}; the log is damaged."]
    assert contradictions(one, ASCII, known) == [
        "  These numbers cannot all be true as printed: see the notes."
    ]
    assert contradictions(exact(capacity=1), ASCII) == []


def test_colour_changes_nothing_but_colour():
    one = exact(capacity=76, free=6, process=60, allocated=40, cached=15, segment=8, limit=60)
    plain = render_bar(one, ReportOptions())
    coloured = render_bar(one, ReportOptions(colour=True))
    assert coloured != plain
    assert [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in coloured] == plain


def test_the_table_has_the_legend():
    rows = ledger_table(exact(capacity=76, free=6, process=60, allocated=40, cached=15), ReportOptions())
    assert rows[0] == ("other processes", "10.00 GiB", "= capacity - free - process")
    assert rows[-1] == ("capacity", "76.00 GiB", "printed")
    assert ledger_table(Ledger(), ReportOptions()) == []


FIELDS = (
    "capacity",
    "free",
    "process",
    "reserved",
    "allocated",
    "cached",
    "private_pool",
    "limit",
    "segment",
    "request",
)


@pytest.mark.parametrize("unicode", [True, False])
@given(
    sizes=st.dictionaries(st.sampled_from(FIELDS), st.integers(0, 2**50)),
    width=st.integers(10, 140),
)
def test_any_ledger_fits_the_width(unicode, sizes, width):
    one = Ledger.build({f"{name}_bytes": Amount(size, size // 1000) for name, size in sizes.items()})
    options = ReportOptions(width=width, unicode=unicode)
    lines = render_bar(one, options)
    assert all(cells(line) <= options.columns for line in lines)
    assert unicode or "\n".join(lines).isascii()
