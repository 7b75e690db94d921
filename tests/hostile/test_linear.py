"""Twice the log, twice the work: counted in items looked at, not in seconds (benchmarks/ has those)."""

from __future__ import annotations

import pytest

from oomph.diagnose import incidents, survival
from oomph.diagnose.engine import diagnose
from oomph.evidence import facts, launchers, messages, series, tables, traces
from tests.hostile.counted import Meter, counted_document, counted_evidence
from tests.hostile.shapes import SHAPES

#: Repetitions; the other log has twice as many.
COUNT = 100
#: A square would give 4. Logarithms of bisections and what is done once for each log leave some room.
MOST = 2.6


@pytest.mark.parametrize("name", SHAPES)
def test_parsers_look_at_each_line_a_fixed_number_of_times(name):
    looked = []
    for count in (COUNT, 2 * COUNT):
        meter = Meter()
        document = counted_document(SHAPES[name](count), meter)
        for parser in (
            messages.parse,
            traces.parse,
            series.parse,
            tables.parse_gpus,
            tables.parse_summaries,
            launchers.parse,
            facts.parse,
        ):
            parser(document)
        looked.append(meter.items / len(document.lines))
    assert looked[1] <= 1.25 * looked[0] + 1
    assert looked[1] < 150


@pytest.mark.parametrize("name", SHAPES)
def test_diagnosing_grows_with_the_log(name, monkeypatch):
    compared = Meter()
    same = incidents._same

    def counting(*arguments):
        compared.items += 1
        return same(*arguments)

    monkeypatch.setattr(incidents, "_same", counting)
    # Steps behind a failure are counted one by one while there are few: a bound for all failures together.
    monkeypatch.setattr(survival, "_LOOKS", 0)
    monkeypatch.setattr(survival, "_LEAST_LOOKS", 20)
    looked, comparisons = [], []
    for count in (COUNT, 2 * COUNT):
        meter = Meter()
        evidence = counted_evidence(SHAPES[name](count), meter)
        compared.items = 0
        diagnose(evidence)
        looked.append(meter.items)
        comparisons.append(compared.items)
    assert looked[1] <= MOST * looked[0] + 2000
    assert comparisons[1] <= MOST * comparisons[0] + 64


def test_a_failure_is_compared_with_a_bounded_number_of_others(monkeypatch):
    calls = Meter()
    same = incidents._same

    def counting(*arguments):
        calls.items += 1
        return same(*arguments)

    monkeypatch.setattr(incidents, "_same", counting)
    evidence = counted_evidence(SHAPES["different failures"](1000), Meter())
    assert len(incidents.group(evidence)) == 1000
    assert calls.items <= 1000 * (incidents._LOOK_BACK + 2)


def test_an_old_failure_that_is_printed_again_is_still_found():
    """Rank 0's failure, those of 500 others, and rank 0's again by the launcher: one failure."""
    text = SHAPES["failures of many ranks"](500)
    first = text.partition("\n")[0]
    groups = incidents.group(counted_evidence(text + first + "\n", Meter()))
    assert len(groups) == 500
    assert len(groups[0].prints) == 2
