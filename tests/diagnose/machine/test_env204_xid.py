"""NVIDIA's Xid catalogue: docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html."""

from __future__ import annotations

import pytest

from oomph.diagnose.machine.checks.env204_xid import XidEvents
from oomph.diagnose.model import Certainty
from oomph.evidence.environment.model import Environment, Xid
from oomph.evidence.model import Quote
from tests.diagnose.machine.built import (
    ERROR,
    NOTE,
    WARNING,
    cards,
    clear,
    environment,
    not_here,
    problem,
    problems,
    untold,
)


def made(*numbers: int) -> Environment:
    return environment(
        "xids",
        xids=tuple(
            Xid(
                number,
                Quote("dmesg", line, f"NVRM: Xid (PCI:0000:17:00): {number}, pid=4711"),
                "0000:17:00",
                4711,
                "python",
            )
            for line, number in enumerate(numbers, 1)
        ),
    )


@pytest.mark.parametrize("number", [13, 31, 43])
def test_the_programs_own(number: int) -> None:
    found = problem(XidEvents, made(number))
    assert found.severity is WARNING
    assert found.certainty is Certainty.LIKELY  # rarely it is the hardware, says the catalogue
    assert "program's own fault" in found.says
    assert "4711" in found.says


@pytest.mark.parametrize("number", [48, 64, 79, 95, 140, 74, 119, 120])
def test_the_cards(number: int) -> None:
    found = problem(XidEvents, made(number))
    assert found.severity is ERROR
    assert "not the job's" in found.says


@pytest.mark.parametrize("number", [63, 92, 94])
def test_the_cards_and_no_end_of_it(number: int) -> None:
    assert problem(XidEvents, made(number)).severity is WARNING


def test_a_gpu_that_fell_off_the_bus_is_not_reset() -> None:
    assert "Reboot" in problem(XidEvents, made(79)).fix


def test_45_follows() -> None:
    assert problem(XidEvents, made(45)).severity is NOTE
    both = problem(XidEvents, made(48, 45, 45))
    assert "Xid 48" in both.says
    assert "Xid 45" in both.does


def test_one_number_is_said_once() -> None:
    found = problem(XidEvents, made(31, 31, 31))
    assert "3 times" in found.says
    assert found.numbers == {"events": 3}
    assert len(problems(XidEvents, made(31, 79))) == 2


def test_a_number_that_is_not_in_the_table() -> None:
    found = problem(XidEvents, made(999))
    assert (found.severity, found.certainty) == (WARNING, Certainty.POSSIBLE)


def test_none() -> None:
    assert clear(XidEvents, environment("xids"))
    assert "dmesg" in untold(XidEvents, environment(cards=cards("NVIDIA A10")))
    assert not_here(XidEvents, environment())
