"""Steps of code whose functions have no telling names: what repeats."""

from __future__ import annotations

from typing import Any

import pytest

from oomph.diagnose.model import Certainty
from oomph.diagnose.snapshot.build import report_of
from oomph.diagnose.snapshot.model import DeviceReport, How
from oomph.units import MIB
from tests.evidence.snapshot.build import BASE, SETTINGS, block, event, read, segment, snapshot

PLACE = 4 * MIB


class Script:
    """Blocks of 4 MiB at places of one large segment, each allocated by a line of x.py."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.held: dict[int, int] = {}

    def take(self, line: int, function: str = "f") -> int:
        place = next(place for place in range(10_000) if place not in self.held)
        self.held[place] = line
        self.events.append(
            event(
                "alloc",
                BASE + place * PLACE,
                PLACE,
                frames=[{"name": function, "filename": "x.py", "line": line}],
            )
        )
        return place

    def drop(self, place: int) -> None:
        del self.held[place]
        for action in ("free_requested", "free_completed"):
            self.events.append(event(action, BASE + place * PLACE, PLACE))

    def report(self) -> DeviceReport:
        places = max(self.held, default=0) + 20
        blocks = [
            block(BASE + place * PLACE, PLACE, "active_allocated" if place in self.held else "inactive")
            for place in range(places)
        ]
        segments = [segment(BASE, blocks, segment_type="large")]
        content = read(snapshot(segments, [self.events], allocator_settings=SETTINGS))
        return report_of(content).devices[0]


def loop(rounds: int, *, leak: bool, first: int = 0) -> DeviceReport:
    """Three blocks loaded; each round takes six by six lines and gives them back, and one by line 99 stays with `leak`.
    The first round also takes `first` blocks for good."""
    script = Script()
    for _ in range(3):
        script.take(1)
    for number in range(rounds):
        taken = [script.take(10 + line) for line in range(6)]
        if leak:
            script.take(99)
        if number == 0:
            for _ in range(first):
                script.take(50)
        for place in taken:
            script.drop(place)
    return script.report()


@pytest.mark.parametrize("rounds", [5, 8, 30])
def test_a_line_that_keeps_a_block_each_round_is_found(rounds: int):
    report = loop(rounds, leak=True)
    assert report.steps is not None
    assert (report.steps.how, report.steps.certainty) == (How.PERIOD, Certainty.LIKELY)
    assert abs(report.steps.count - rounds) <= 1
    assert report.growth is not None
    [leak] = report.growth.leaks
    assert leak.place is not None
    assert (leak.place.line, leak.bytes_per_step) == (99, PLACE)
    # What a repetition is, nothing names: so the leak is not certain either.
    assert leak.certainty is Certainty.LIKELY


@pytest.mark.parametrize("first", [0, 4])
def test_a_loop_that_gives_everything_back_does_not_grow(first: int):
    report = loop(12, leak=False, first=first)
    assert report.growth is not None
    assert report.growth.leaks == ()
    assert report.steps is not None
    assert abs(report.steps.count - 12) <= 1


def test_layers_that_keep_most_of_what_they_take_are_only_possibly_steps():
    script = Script()
    for _ in range(20):
        kept = [script.take(10), script.take(11)]
        script.drop(script.take(12))
        assert kept
    report = script.report()
    assert report.steps is not None
    assert report.steps.certainty is Certainty.POSSIBLE
    assert report.growth is not None
    assert all(leak.certainty is Certainty.POSSIBLE for leak in report.growth.leaks)


def test_too_few_rounds_are_no_loop():
    report = loop(2, leak=True)
    assert report.steps is not None
    assert report.steps.count == 0
    assert report.growth is not None
    assert report.growth.leaks == ()


def test_requests_in_no_order_do_not_repeat():
    script = Script()
    for line in (3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2, 3, 8, 4, 6, 2, 6, 4, 3, 3, 8, 3, 2, 7):
        script.drop(script.take(line))
    assert script.report().steps is not None
    assert script.report().steps.count == 0


def named(rounds: int, *, keep: bool) -> DeviceReport:
    """A loop of inference: a forward, named so, and a line that keeps something of each round with `keep`."""
    script = Script()
    for _ in range(rounds):
        taken = [script.take(10 + line, "forward") for line in range(6)]
        if keep:
            script.take(99, "collect")
        for place in taken:
            script.drop(place)
    return script.report()


def test_what_a_loop_of_inference_keeps_grows_too():
    report = named(12, keep=True)
    assert report.steps is not None
    assert report.steps.count == 0
    assert report.growth is not None
    [leak] = report.growth.leaks
    assert leak.place is not None
    assert (leak.place.function, leak.bytes_per_step) == ("collect", PLACE)
    assert leak.certainty is Certainty.LIKELY
    assert "No training steps were recognised" in report.growth.says


def test_a_loop_of_inference_that_keeps_nothing_does_not_grow():
    report = named(12, keep=False)
    assert report.growth is not None
    assert report.growth.leaks == ()
