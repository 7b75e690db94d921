"""What if: the answer on jobs whose memory is written out in the test."""

from __future__ import annotations

from dataclasses import replace

import pytest

from oomph.diagnose.snapshot import whatif_answer
from oomph.evidence.snapshot import allocator_settings
from oomph.memory.replay import start_state
from oomph.memory.replay.trial_requests import Requests
from oomph.memory.replay.whatif import baseline
from oomph.units import GIB, MIB
from tests.diagnose.snapshot.whatif_jobs import PLAIN, ask, free, full_card, mixed, named, pinned
from tests.memory.replay.recorder import Recorder


def test_pinned_segments_are_cured_by_expandable_segments():
    """1100 MiB. No hole holds 400 MiB, no segment is free, 100 MiB are left: the request fails.

    Expandable: 1000 MiB are mapped. 400 MiB need 220 more behind the last hole (198 are there, pages have 20): 1220
    are too many. Then every hole gives back its 9 whole pages (180 of 198 MiB): 100 MiB stay, and 400 more fit.
    """
    recorder = pinned(MIB, 1100 * MIB)
    answer = ask(recorder)
    failed = len(recorder.events) - 1
    own, cured = named(answer, ""), named(answer, "expandable_segments:True")
    assert answer.capacity_bytes == 1100 * MIB
    assert (own.fails_at, own.peak_reserved_bytes) == (failed, 1000 * MIB)
    assert (cured.fails_at, cured.served_at, cured.peak_reserved_bytes) == (None, failed, 1000 * MIB)
    assert (cured.retries, cured.releases) == (1, 5)
    assert answer.worth_trying == cured
    assert answer.says == (
        f"expandable_segments:True would have served the request of 400.00 MiB that failed at event {failed}, with "
        "at most 1000.00 MiB reserved. What the job would have asked for after it is not in the trace."
    )


def test_without_a_failure_a_setting_is_worth_trying_for_a_tenth_and_one_gib():
    """Ten times as large and without an end of memory: 10000 + 4000 MiB; expandable, the 4000 begin in the last hole
    of 1980: 2020 more are mapped, in pages of 20 (10000 + 2020). That saves 1980 MiB, 14 %. At a tenth of the sizes it
    is 1400 to 1220 MiB, also 13 %, and not worth a word: less than 1 GiB."""
    answer = ask(pinned(10 * MIB))
    assert (answer.capacity_bytes, named(answer, "").peak_reserved_bytes) == (None, 14000 * MIB)
    assert named(answer, "expandable_segments:True").peak_reserved_bytes == 12020 * MIB
    assert answer.worth_trying == named(answer, "expandable_segments:True")
    assert "would have been 11.74 GiB instead of 13.67 GiB" in answer.says
    small = ask(pinned(MIB))
    assert named(small, "").peak_reserved_bytes == 1400 * MIB
    assert named(small, "expandable_segments:True").peak_reserved_bytes == 1220 * MIB
    assert small.worth_trying is None
    assert small.says.startswith("Nothing failed; none of the settings tried lowers")


def test_a_limit_is_a_range_and_the_answer_says_so():
    """600 MiB are reserved and the device has 10 GiB, but 500 more fail: a limit from 600 to just below 1100."""
    recorder = Recorder(PLAIN, 1000 * MIB)
    recorder.malloc(600 * MIB)
    recorder.malloc(500 * MIB)
    recorder.events[-1]["device_free"] = 10 * GIB
    answer = ask(recorder, "all")
    assert answer.capacity_bytes == 600 * MIB
    assert answer.says == (
        "No setting helps: 600.00 MiB in use and the request of 500.00 MiB that failed at event 2 are more than the "
        "600.00 MiB to 1.07 GiB that PyTorch can have."
    )


def test_nothing_cures_a_full_card():
    """3 x 300 MiB in use of 1000; the fourth request makes 1200: 200 too many, whatever is set."""
    answer = ask(full_card(), "all", "capacity:1100MiB", "capacity:2GiB")
    assert answer.worth_trying is None
    assert answer.says.startswith(
        "No setting helps: 900.00 MiB in use and the request of 300.00 MiB that failed"
    )
    assert "200.00 MiB more than the 1000.00 MiB" in answer.says
    assert answer.says.endswith("2.00 GiB for PyTorch would have been enough for it.")
    assert named(answer, "capacity:1100MiB").fails_at == named(answer, "").fails_at
    assert named(answer, "capacity:2GiB").served_at == named(answer, "").fails_at
    for trial in answer.trials:
        assert (trial.fails_at is None) == trial.setting.startswith("capacity:2")


def test_rounding_can_make_it_worse():
    """Seven blocks of 136 MiB are 952 of 1000. In quarters of 128 MiB, 136 becomes 160: six are 960, the seventh does
    not fit. Each block is two events, the seventh the 14th."""
    recorder = Recorder(PLAIN)
    for _ in range(7):
        recorder.malloc(136 * MIB)
    answer = ask(recorder, "roundup_power2_divisions:4", capacity_bytes=1000 * MIB)
    assert answer.capacity_how == "given"
    assert named(answer, "").fails_at is None
    assert named(answer, "").peak_reserved_bytes == 952 * MIB
    worse = named(answer, "roundup_power2_divisions:4")
    assert (worse.fails_at, worse.peak_reserved_bytes) == (13, 960 * MIB)
    assert answer.worth_trying is None
    assert answer.says.endswith("With roundup_power2_divisions:4 a request fails at event 13.")


def test_large_blocks_that_are_kept_whole():
    """From 512 MiB on blocks are kept whole: the 30s get segments of their own, one block of 600 serves both times,
    and is given back for the 800: 60 + 800."""
    recorder = mixed()
    failed = len(recorder.events) - 1
    answer = ask(recorder, "max_split_size_mb:512")
    cured = named(answer, "max_split_size_mb:512")
    assert named(answer, "").fails_at == failed
    assert (cured.served_at, cured.peak_reserved_bytes) == (failed, 860 * MIB)
    assert answer.worth_trying == cured
    both = ask(recorder)
    assert named(both, "max_split_size_mb:512").served_at == failed
    assert both.worth_trying == named(both, "expandable_segments:True")  # needs no measuring


def test_emptying_the_cache_changes_nothing():
    """1000 MiB, 500 in use, 400 cached, a request of 600: PyTorch gives the 400 back by itself and fails all the same
    (500 + 600). Emptying at the end of the phase only does it sooner."""
    recorder = Recorder(PLAIN, 1000 * MIB)
    recorder.malloc(500 * MIB)
    free(recorder, recorder.malloc(400 * MIB))
    boundary = len(recorder.events) - 1
    recorder.malloc(600 * MIB)
    failed = len(recorder.events) - 1
    answer = ask(recorder, boundaries=(boundary,))
    emptied = named(answer, "empty_cache")
    assert (emptied.fails_at, emptied.releases) == (failed, 1)
    assert (named(answer, "").fails_at, named(answer, "").releases) == (failed, 1)
    assert answer.worth_trying is None


def test_emptying_the_cache_of_a_job_that_gives_it_back_when_needed():
    """2 x 400 MiB cached of 1000; 900 are served after they were given back: with or without emptying before."""
    recorder = Recorder(PLAIN, 1000 * MIB)
    blocks = [recorder.malloc(400 * MIB) for _ in range(2)]
    for block in blocks:
        free(recorder, block)
    boundary = len(recorder.events) - 1
    recorder.malloc(900 * MIB)
    answer = ask(recorder, "empty_cache", boundaries=(boundary,))
    own, emptied = answer.trials
    assert (own.retries, own.releases, own.peak_reserved_bytes) == (1, 2, 900 * MIB)
    assert (emptied.retries, emptied.releases, emptied.peak_reserved_bytes) == (0, 2, 900 * MIB)
    assert answer.worth_trying is None
    assert answer.says.startswith(
        "Nothing failed, but cached memory had to be given back once to serve a request"
    )


@pytest.mark.parametrize("asked_for", [True, False])
def test_a_stack_tells_empty_cache_from_memory_that_ran_out(asked_for: bool):
    """The same events: 2 x 400 MiB given back, then 900 from the driver. Only PyTorch's own release bounds the
    capacity: 900 MiB at least, less than 800 + 900."""
    recorder = Recorder(PLAIN, 1000 * MIB)
    blocks = [recorder.malloc(400 * MIB) for _ in range(2)]
    for block in blocks:
        free(recorder, block)
    recorder.malloc(900 * MIB)
    inner = {"name": "empty_cache", "filename": "torch/cuda/memory.py", "line": 170}
    outer = {"name": "forward", "filename": "/job/model.py", "line": 7}
    for event in recorder.events:
        event["frames"] = [inner, outer] if asked_for and event["action"] == "segment_free" else [outer]
    answer = ask(recorder, "expandable_segments:True", "capacity:4GiB")
    assert (named(answer, "").retries, named(answer, "").releases) == (0 if asked_for else 1, 2)
    # With room for everything, what the user emptied is emptied, and what the device lacked is not given back.
    assert named(answer, "capacity:4GiB").peak_reserved_bytes == (900 if asked_for else 1700) * MIB
    if asked_for:
        assert (answer.capacity_bytes, answer.says[:15]) == (None, "Nothing failed;")
    else:
        assert answer.capacity_bytes is not None
        assert 900 * MIB <= answer.capacity_bytes < 1700 * MIB
        assert "because cached memory had to be given back to serve a request" in answer.capacity_how


def test_what_was_there_before_the_trace_keeps_its_layout_and_the_answer_says_so():
    """The last events of the pinned job: 1000 of 1000 MiB were there before."""
    recorder = pinned(MIB, 1100 * MIB)
    answer = ask(recorder, last=3)
    assert "1000.00 MiB (100% of the most that was reserved) was there before" in answer.trials[1].caveat
    assert named(answer, "").caveat == ""
    assert answer.worth_trying is None  # expandable segments cannot move the old holes
    assert "1000.00 MiB was there before the trace begins and keeps its layout here" in answer.says
    large = Recorder(PLAIN)
    large.malloc(4 * GIB)
    large.malloc(8 * MIB)
    cut = ask(large, last=2)
    assert "so it cannot tell whether other settings would have reserved less" in cut.says


def test_a_failure_that_the_job_survived():
    """600 of 1000 MiB in use, 500 fail, and the job goes on with 200."""
    recorder = Recorder(PLAIN, 1000 * MIB)
    for size in (600, 500, 200):
        recorder.malloc(size * MIB)
    answer = ask(recorder, "all", "capacity:2GiB")
    own = named(answer, "")
    assert (own.fails_at, own.survived, own.peak_reserved_bytes) == (None, (2,), 800 * MIB)
    assert answer.worth_trying is None
    assert answer.says.startswith("No setting helps: 600.00 MiB in use")
    assert named(answer, "capacity:2GiB").served_at == 2


def test_another_failure_that_the_job_survived_before_the_last_one():
    """The pinned job survives its failure, and fails for good with 1100 MiB in one piece: what it would have done if
    the first had been served is not known."""
    recorder = pinned(MIB, 1100 * MIB)
    first = len(recorder.events) - 1
    recorder.malloc(20 * MIB)
    recorder.malloc(900 * MIB)
    answer = ask(recorder, "expandable_segments:True")
    assert answer.worth_trying is None
    assert answer.says.startswith(
        f"expandable_segments:True would have served the request that failed at event {first}, which the job survived."
    )


def test_a_given_capacity_that_serves_the_job():
    answer = ask(pinned(MIB, 1100 * MIB), "expandable_segments:True", capacity_bytes=2 * GIB)
    assert answer.worth_trying is None
    assert answer.says.startswith("With 2.00 GiB the request that failed")


def test_a_smaller_card():
    """1400 MiB served the pinned job; on 1100 MiB it fails at its last event, unless segments expand."""
    recorder = pinned(MIB)
    last = len(recorder.events) - 1
    answer = ask(recorder, "expandable_segments:True", "capacity:1300MiB", capacity_bytes=1100 * MIB)
    assert named(answer, "").fails_at == last
    assert named(answer, "capacity:1300MiB").fails_at == last  # 1000 + 400
    assert answer.worth_trying == named(answer, "expandable_segments:True")
    assert answer.says.startswith(
        "expandable_segments:True serves the request of 400.00 MiB that fails at event"
    )


def test_a_simulation_that_fails_where_the_job_went_on_tells_nothing():
    snapshot = pinned(MIB, 1100 * MIB).snapshot()
    device, settings = snapshot.devices[0], allocator_settings(snapshot)
    requests = Requests(device.timeline, start_state(device.segments, device.timeline, settings))
    base = baseline(requests, settings)
    odd = replace(base, reproduced=False, outcome=replace(base.outcome, fails_at=1))
    worth, says = whatif_answer.answer(requests, odd, [])
    assert worth is None
    assert says.endswith(
        "at event 1, where the trace goes on, so it cannot tell what others would have done."
    )


def test_memory_that_waits_for_other_streams_can_be_had():
    """60 MiB in use, 600 that another stream may still use, 800 asked for of 1300: PyTorch waits for that stream and
    takes the 600, so that 60 + 800 are what no setting can do without."""
    recorder = mixed()
    [*_, last] = [event for event in recorder.events if event["action"] == "free_completed"]
    recorder.events.remove(last)
    answer = ask(recorder)
    assert answer.capacity_bytes == 1300 * MIB
    assert answer.worth_trying is not None
    assert answer.worth_trying.setting == "expandable_segments:True"
    assert "No setting helps" not in answer.says
