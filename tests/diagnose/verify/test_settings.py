from __future__ import annotations

import pytest

from oomph.diagnose.verify.checks import NAMES
from oomph.diagnose.verify.settings import (
    Amount,
    Limit,
    Settings,
    amount,
    checks_named,
    from_table,
    limit,
)
from oomph.errors import UsageError
from oomph.phases import Phase

GIB = 1 << 30


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10%", Amount(percent=10.0)),
        ("2.5 %", Amount(percent=2.5)),
        ("4GiB", Amount(size_bytes=4 * GIB)),
        ("0", Amount(size_bytes=0)),
        (4 * GIB, Amount(size_bytes=4 * GIB)),
    ],
)
def test_amounts(text, expected):
    assert amount("--headroom", text) == expected


@pytest.mark.parametrize("text", ["", "much", "101%", "-1GiB", "10 percent", None, True, 3.5, [1]])
def test_what_is_no_amount(text):
    with pytest.raises(UsageError, match="--headroom"):
        amount("--headroom", text)


def test_a_share_of_the_card():
    assert Amount(percent=10.0).of(80 * GIB) == 8 * GIB
    assert Amount(size_bytes=GIB).of(80 * GIB) == GIB
    assert (str(Amount(percent=2.5)), str(Amount(size_bytes=4 * GIB))) == ("2.5 %", "4.00 GiB")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("backward=30GiB", Limit(Phase.BACKWARD, "reserved", 30 * GIB)),
        ("allocated:eval=20GiB", Limit(Phase.EVAL, "allocated", 20 * GIB)),
        (" Active:Forward = 1GiB", Limit(Phase.FORWARD, "active", GIB)),
        ("peak=1024", Limit(None, "reserved", 1024)),
    ],
)
def test_limits(text, expected):
    assert limit(text) == expected


def test_subjects_read_as_they_were_written():
    assert [limit(text).subject for text in ("backward=1GiB", "allocated:peak=1GiB")] == [
        "backward",
        "allocated:peak",
    ]


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("backward", "PHASE=SIZE"),
        ("sideways=1GiB", "a phase is"),
        ("free:backward=1GiB", "a counter is"),
        ("backward=", "give a size"),
        ("backward=lots", "give a size"),
    ],
)
def test_what_is_no_limit(text, match):
    with pytest.raises(UsageError, match=match):
        limit(text)


def test_a_table():
    table = {
        "headroom": "5%",
        "headroom_first": "2GiB",
        "headroom_of": "reserved",
        "limits": {"backward": "30GiB", "allocated:eval": 1024},
        "growth": 0,
        "growth_steps": 20,
        "ranks": "3%",
        "retries": 2,
        "select": ["headroom", "limit"],
        "ignore": ["growth"],
        "strict": True,
    }
    assert from_table(table, "checks.toml", NAMES, Settings()) == Settings(
        headroom=Amount(percent=5.0),
        headroom_first=Amount(size_bytes=2 * GIB),
        headroom_of="reserved",
        limits=(Limit(Phase.BACKWARD, "reserved", 30 * GIB), Limit(Phase.EVAL, "allocated", 1024)),
        growth_bytes=0,
        growth_steps=20,
        ranks=Amount(percent=3.0),
        retries=2,
        select=("headroom", "limit"),
        ignore=("growth",),
        strict=True,
    )


@pytest.mark.parametrize(
    ("table", "match"),
    [
        ({"headrom": "5%"}, "checks.toml: unknown key 'headrom'; known are headroom, "),
        ({"headroom": "much"}, "checks.toml: headroom 'much'"),
        ({"headroom_of": "cached"}, "it takes both, allocated, reserved"),
        ({"limits": "backward=3GiB"}, "checks.toml: limits: give a table"),
        ({"limits": {"sideways": "3GiB"}}, "checks.toml: limits.sideways: a phase is"),
        ({"growth_steps": 2}, "at least 4"),
        ({"growth_steps": True}, "at least 4"),
        ({"retries": -1}, "at least 0"),
        ({"strict": "yes"}, "true or false"),
        ({"select": ["nothing"]}, "there is no check 'nothing'; known are first-step"),
        ({"select": [1]}, "give names of checks"),
    ],
)
def test_a_table_that_makes_no_sense(table, match):
    with pytest.raises(UsageError, match=match):
        from_table(table, "checks.toml", NAMES, Settings())


def test_names_with_commas():
    assert checks_named("--select", "growth, Ranks", NAMES) == ("growth", "ranks")
