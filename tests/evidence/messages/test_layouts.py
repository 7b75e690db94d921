from __future__ import annotations

import pytest

from tests.evidence.messages.layouts import LAYOUTS, WRAPS, traceback
from tests.evidence.messages.read import numbers, read
from tests.evidence.messages.samples import ALLOCATOR, ASYNC, SHORT, Sample, ids

WIDTHS = range(40, 121)
#: Every width for the plain wraps, some for those that add to them.
STEP = {"cut": 1, "wrapped": 1}
#: The next lines of the log: sizes beside the words of the message, which are not the message's.
AFTER = "\nstep 12 | loss 2.310 | mem 11.20 GiB | 1.50 GiB cached | 42 MiB free\nquota: 9.00 GiB allowed; 3 MiB used\n"


def outcome(text: str, sample: Sample) -> str:
    """Empty when the one failure of the sample was read; otherwise what came out instead."""
    failures = read(text)
    if len(failures) != 1:
        return f"{[failure.format for failure in failures]}"
    failure = failures[0]
    if failure.format != sample.format:
        return failure.format
    if "mention" in failure.detail:
        return f"taken for a mention ({failure.detail['mention']})"
    got = numbers(failure)
    wrong = {
        name: (got.get(name), sample.numbers.get(name))
        for name in {*got, *sample.numbers}
        if got.get(name) != sample.numbers.get(name)
    }
    return f"(got, printed): {wrong}" if wrong else ""


@pytest.mark.parametrize("sample", ALLOCATOR + ASYNC[:2], ids=ids)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(layout: str, sample: Sample):
    assert outcome(LAYOUTS[layout](traceback(sample.text) + AFTER), sample) == ""


#: A box pads every row, and a layout of sizes has nothing to change here.
_FOR_SHORT = [
    name for name in LAYOUTS if "sizes" not in name and "number" not in name and "units" not in name
]


@pytest.mark.parametrize("layout", _FOR_SHORT)
def test_layouts_of_short_messages(layout: str):
    problems = {
        sample.id: problem
        for sample in SHORT
        if (problem := outcome(LAYOUTS[layout](traceback(sample.text) + AFTER), sample))
    }
    assert problems == {}


@pytest.mark.parametrize("sample", ALLOCATOR, ids=ids)
@pytest.mark.parametrize("wrap", WRAPS)
def test_wraps(wrap: str, sample: Sample):
    problems = {
        width: problem
        for width in WIDTHS[:: STEP.get(wrap, 9)]
        if (problem := outcome(WRAPS[wrap](traceback(sample.text) + AFTER, width), sample))
    }
    assert problems == {}


@pytest.mark.parametrize("wrap", ["cut", "wrapped"])
def test_wraps_of_a_lone_message(wrap: str):
    """Without a traceback, a class name or anything after it: only the class tells torch 2.2 and 2.4 apart."""
    problems = {}
    for sample in ALLOCATOR:
        message = sample.text.split(": ", 1)[1]
        for width in WIDTHS[::3]:
            problem = outcome(WRAPS[wrap](message, width), sample)
            if problem and (sample.format, problem) != ("F5_22_23", "F6_torchOOM"):
                problems[sample.id, width] = problem
    assert problems == {}


@pytest.mark.parametrize("width", [40, 52, 64, 79, 80, 100, 120])
def test_wraps_of_short_messages(width: int):
    problems = {
        (sample.id, wrap): problem
        for sample in SHORT
        for wrap in ("cut", "wrapped")
        if (problem := outcome(WRAPS[wrap](sample.text, width) + AFTER, sample))
    }
    assert problems == {}


@pytest.mark.parametrize("width", [40, 52, 64, 79, 80, 100, 120])
def test_wrapped_in_a_box(width: int):
    from tests.evidence.messages.layouts import boxed, boxed_ascii

    problems = {
        (sample.id, box.__name__): problem
        for sample in ALLOCATOR
        for box in (boxed, boxed_ascii)
        if (problem := outcome(box(sample.text, width) + AFTER, sample))
    }
    assert problems == {}
