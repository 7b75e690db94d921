from __future__ import annotations

from typing import get_args

import pytest

from oomph.job.model import Framework, Job, Parallel
from oomph.predict.interval import BANDS, Band, Counter, Situation, band, situation, widen

KNOWN = Framework(name="transformers")


@pytest.mark.parametrize(
    ("job", "its"),
    [
        (Job(), "unknown"),
        (Job(compile=True), "unknown"),
        (Job(framework=KNOWN), "known"),
        (Job(framework=KNOWN, parallel=Parallel(strategy="ddp", data=8)), "known"),
        (Job(framework=KNOWN, parallel=Parallel(strategy="fsdp2_full", data=8)), "sharded"),
        (Job(framework=KNOWN, parallel=Parallel(strategy="zero2", data=8)), "sharded"),
        (Job(framework=KNOWN, parallel=Parallel(tensor=2)), "sharded"),
        (Job(framework=KNOWN, parallel=Parallel(context=2)), "sharded"),
        (Job(framework=KNOWN, parallel=Parallel(pipeline=2)), "sharded"),
        (Job(framework=KNOWN, compile=True, parallel=Parallel(tensor=2)), "compiled"),
    ],
)
def test_the_situation_of_a_job(job, its):
    assert situation(job) == its


@pytest.mark.parametrize("counter", get_args(Counter))
@pytest.mark.parametrize("where", get_args(Situation))
def test_every_counter_has_a_band_in_every_situation(counter, where):
    its = band(counter, where)
    low, high = widen(10_000, counter, where)
    assert low <= 10_000 * (1 - its.below) < low + 1
    assert high - 1 < 10_000 * (1 + its.above) <= high


def test_variants_stretch_the_interval_and_the_band_is_put_around_them(monkeypatch):
    monkeypatch.setitem(BANDS, ("allocated", "known"), Band(0.1, 0.2))
    # 900 less a tenth, 1200 and a fifth
    assert widen(1000, "allocated", "known", [900, 1200]) == (810, 1440)
    assert widen(1000, "allocated", "known") == (900, 1200)


def test_code_that_nobody_named_is_never_surer_than_code_that_is_known():
    for counter in ("allocated", "end_allocated", "reserved"):
        assert BANDS[counter, "unknown"].below >= BANDS[counter, "known"].below
        assert BANDS[counter, "unknown"].above >= BANDS[counter, "known"].above


@pytest.mark.parametrize(("below", "above"), [(-0.1, 0.1), (1.0, 0.1), (0.1, -0.1)])
def test_shares_that_make_no_interval_are_refused(below, above):
    with pytest.raises(ValueError, match="band"):
        Band(below, above)


def test_a_size_below_zero_is_refused():
    with pytest.raises(ValueError, match="below 0"):
        widen(-1, "allocated")
