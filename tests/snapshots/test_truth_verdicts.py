"""Why a request failed: what oomph says, against what the generator built."""

from __future__ import annotations

import pickle
from collections.abc import Callable

import pytest

from oomph.diagnose.model import Certainty
from oomph.diagnose.snapshot.build import report_of
from oomph.diagnose.snapshot.model import Failure, Verdict
from oomph.evidence.snapshot import from_bytes
from oomph.units import MIB
from tests.snapshots import sites
from tests.snapshots.answers import answer, failure_of
from tests.snapshots.every import ELSEWHERE, FRAGMENTED, FULL
from tests.snapshots.frames import STYLES, Line
from tests.snapshots.scenarios import elsewhere, fragmentation, full, natural, training
from tests.snapshots.truth import Failed
from tests.snapshots.written import ERAS, Made

VERDICTS = {**FULL, **FRAGMENTED, **ELSEWHERE}
#: Formats that say which pool a request was for, and those that do not.
SOME_ERAS = ("2.4", "2.10", "2.13")


def check_numbers(failure: Failure, failed: Failed) -> None:
    """Every number of the failure, by the generator's own sums."""
    assert failure.position == failed.position
    assert failure.request_bytes == failed.request_bytes
    assert failure.segment_bytes == failed.segment_bytes
    assert (failure.pool, failure.stream, failure.small) == (failed.pool, failed.stream, failed.small)
    assert failure.hole_bytes == failed.hole_bytes
    assert failure.cached_own_bytes == failed.cached_own_bytes
    assert failure.cached_bytes == failed.cached_bytes
    assert failure.free_bytes == failed.free_bytes
    assert failure.reserved_bytes == failed.reserved_bytes
    assert failure.allocated_bytes == failed.allocated_bytes
    assert failure.available_bytes == failed.available_bytes
    assert failure.short_by_bytes == failed.short_by_bytes


def check(made: Made, failure: Failure) -> None:
    failed = made.truth.failed
    assert failed is not None
    assert failure.verdict == made.truth.verdict, failure.says
    assert failure.caught is made.truth.caught
    check_numbers(failure, failed)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", VERDICTS)
def test_each_verdict_with_its_numbers(name: str, seed: int):
    made = VERDICTS[name](seed, STYLES[seed % 3])
    check(made, failure_of(made, SOME_ERAS[seed]))


@pytest.mark.parametrize("era", ERAS)
def test_verdicts_in_every_format(era: str):
    for make in (full.cached, fragmentation.tails, elsewhere.capped, elsewhere.outside_grew):
        made = make(5, "python")
        check(made, failure_of(made, era))


@pytest.mark.parametrize("way", full.WAYS)
def test_a_full_card_is_never_called_fragmented(way: str):
    """Twenty of each way, with sizes, holes and requests of their own."""
    for seed in range(100, 120):
        made = full.WAYS[way](seed, "none")
        failure = failure_of(made, "2.8")
        assert failure.verdict is Verdict.FULL, (seed, failure.says)


@pytest.mark.parametrize("part", [1.05, 1.3, 2.0, 4.0])
def test_holes_that_are_too_small_together_are_no_fragmentation(part: float):
    """The same layout as fragmentation, asked for a little or much more than all its holes."""
    for seed in range(12):
        made = fragmentation.tails(seed, "python", part=part)
        failure = failure_of(made)
        assert failure.verdict is Verdict.FULL, failure.says
        assert failure.pins == ()


@pytest.mark.parametrize("part", [0.4, 0.7, 0.98])
def test_holes_that_are_enough_together_are_fragmentation(part: float):
    for seed in range(8):
        made = fragmentation.tails(seed, "python", part=part)
        failed = made.truth.failed
        assert failed is not None
        failure = failure_of(made)
        assert failure.verdict is Verdict.FRAGMENTED, failure.says
        assert failure.certainty is Certainty.CERTAIN


def lines(failure: Failure) -> set[Line]:
    return {(pin.place.file, pin.place.line) for pin in failure.pins if pin.place is not None}


@pytest.mark.parametrize("style", ["all", "python"])
@pytest.mark.parametrize("name", FRAGMENTED)
def test_pins_are_named_by_their_line(name: str, style: str):
    for seed in range(4):
        made = FRAGMENTED[name](seed, style)
        failure = failure_of(made)
        assert lines(failure) == set(made.truth.pins)
        (count,) = made.truth.pins.values()
        assert 0 < len(failure.pins) <= count


def test_a_pin_says_how_large_the_hole_would_be_without_it():
    failure = failure_of(fragmentation.tails(3))
    assert all(pin.hole_bytes == 20 * MIB for pin in failure.pins)


@pytest.mark.parametrize("seed", range(6))
def test_expandable_segments_cure_what_pages_can_move(seed: int):
    assert fragmentation.heads_would_fit(seed, sites.EXPANDABLE)
    report = answer(fragmentation.heads(seed), what_if=["expandable_segments:True"])
    trials = report.devices[0].what_if
    assert trials is not None
    (trial,) = [one for one in trials.trials if one.setting == "expandable_segments:True"]
    assert trial.fails_at is None
    assert trials.worth_trying == trial


@pytest.mark.parametrize("seed", range(4))
def test_growth_outside_is_told_to_the_byte(seed: int):
    for make in (elsewhere.outside_grew, elsewhere.outside_grew_between_failures):
        made = make(seed, "python")
        assert failure_of(made).outside_growth_bytes == made.truth.outside_growth_bytes


@pytest.mark.parametrize("seed", range(4))
def test_a_cap_lies_between_what_was_reserved_and_what_was_asked(seed: int):
    made = elsewhere.capped(seed, "all", sites.EXPANDABLE if seed % 2 else None)
    failure = failure_of(made)
    assert failure.verdict is Verdict.CAPPED
    assert made.truth.cap_bytes is not None
    assert failure.reserved_bytes <= made.truth.cap_bytes < failure.reserved_bytes + failure.segment_bytes


def test_private_pools_are_counted():
    made = elsewhere.graph_pool(2)
    device = answer(made).devices[0]
    private = [pool for pool in device.pools if pool.pool != (0, 0)]
    assert sum(pool.reserved_bytes for pool in private) == made.truth.private_bytes


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("name", training.DYING)
def test_training_jobs(name: str, style: str):
    for seed in range(2):
        made = training.DYING[name](seed, style)
        failed = made.truth.failed
        assert failed is not None
        failure = failure_of(made)
        check_numbers(failure, failed)
        assert failure.caught is made.truth.caught
        if made.truth.verdict is not None:
            assert failure.verdict == made.truth.verdict, failure.says


def test_only_a_failure_that_ended_the_job_counts_for_the_exit_code():
    assert answer(training.finds_its_batch(1)).exit_code == 0
    assert answer(training.dies_and_unwinds(1)).exit_code == 1
    assert answer(training.one_of_three_devices(1)).exit_code == 1


def test_the_device_that_failed_is_shown():
    report = answer(training.one_of_three_devices(2))
    assert report.devices[report.shown].index == 1


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("seed", range(3))
def test_a_retry_is_found(seed: int, style: str):
    made = training.retries(seed, style)
    device = answer(made).devices[0]
    assert [retry.position for retry in device.retries] == made.truth.retries
    (retry,) = device.retries
    assert retry.released_bytes == 3000 * MIB
    assert retry.segments == 3
    assert retry.request_bytes == (2000 + seed * 100) * MIB
    assert retry.bound_bytes is not None
    assert retry.bound_bytes > 6 * 1024 * MIB
    assert (retry.certainty is Certainty.POSSIBLE) == (style == "none")
    assert device.failure is None


@pytest.mark.parametrize("style", ["all", "python"])
def test_emptying_the_cache_is_no_retry(style: str):
    for seed in range(3):
        assert answer(training.empties_its_cache(seed, style)).devices[0].retries == ()


def test_without_stacks_a_release_is_called_a_retry_only_as_possible():
    for retry in answer(training.empties_its_cache(1, "none")).devices[0].retries:
        assert retry.certainty is Certainty.POSSIBLE


@pytest.mark.parametrize("last", [30, 200])
def test_a_ring_keeps_the_verdict(last: int):
    for make in (full.cached, fragmentation.tails, elsewhere.side_stream):
        made = make(6, "python")
        failed = made.truth.failed
        assert failed is not None
        failure = failure_of(made, last=last)
        lost = max(0, len(made.device.events) - last)
        assert failure.verdict == made.truth.verdict
        assert failure.position == failed.position - lost
        assert failure.cached_own_bytes == failed.cached_own_bytes
        assert failure.allocated_bytes == failed.allocated_bytes


@pytest.mark.parametrize("first", [0, 15, 30, 400])
def test_jobs_of_random_shapes_on_cards_that_are_too_small(first: int):
    """Whatever the job and its settings: numbers and retries are right, and where sums decide the verdict, it is
    theirs."""
    for seed in range(first, first + 15):
        made = natural.job(seed)
        if made is None:
            continue
        failed = made.truth.failed
        assert failed is not None
        device = answer(made).devices[0]
        failure = device.failure
        assert failure is not None
        check_numbers(failure, failed)
        assert [retry.position for retry in device.retries] == made.truth.retries
        if made.truth.verdict is not None:
            assert failure.verdict == made.truth.verdict, (seed, failure.says)
        else:
            # Neither full nor plainly in pieces; nothing capped it, and nothing outside grew.
            assert failure.verdict in (Verdict.FRAGMENTED, Verdict.OTHER_POOL), (seed, failure.says)


@pytest.mark.parametrize("make", [full.cached, fragmentation.tails, training.dies_and_unwinds])
def test_segments_alone_name_no_failure(make: Callable[[int], Made]):
    """A snapshot without history: what is in use is known, why and when is not."""
    made = make(3)
    content = made.content("2.10")
    for traces in ([], [[]]):
        snapshot = from_bytes(pickle.dumps({**content, "device_traces": traces}), "segments.pickle")
        device = report_of(snapshot).devices[0]
        assert device.failure is None
        assert device.events == 0
        assert device.ledger.allocated_bytes == made.device.allocator.allocated_bytes
        assert device.growth is None
        assert device.retries == ()


@pytest.mark.parametrize("seed", range(4))
def test_a_capture_fails_beside_what_is_cached(seed: int):
    """From 2.13 on the event names the graph's pool. Before, nothing does, and then the reason is not known."""
    made = elsewhere.during_capture(seed)
    assert made.truth.failed is not None
    failure = failure_of(made, "2.13")
    assert failure.verdict is Verdict.OTHER_POOL, failure.says
    check_numbers(failure, made.truth.failed)
    assert failure_of(made, "2.10").verdict in (Verdict.UNKNOWN, Verdict.OTHER_POOL)
