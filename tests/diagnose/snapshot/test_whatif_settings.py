"""What if: which settings are tried, what is refused, and what weakens an answer."""

from __future__ import annotations

from dataclasses import replace

import pytest

from oomph.errors import UsageError
from oomph.memory.allocator.errors import SettingsError
from oomph.memory.allocator.settings import AllocatorSettings
from oomph.units import MIB
from tests.diagnose.snapshot.whatif_jobs import PLAIN, ask, free, full_card, named, pinned
from tests.memory.replay.recorder import Recorder


def test_sizes_of_max_split_that_do_the_same_are_shown_once():
    """The largest block has 200 MiB: 512 and 256 change nothing and are left out."""
    shown = [trial.setting for trial in ask(pinned(MIB)).trials]
    assert "max_split_size_mb:512" not in shown
    assert "max_split_size_mb:256" not in shown
    asked = ask(pinned(MIB), "max_split_size_mb:512")  # whoever asks gets an answer
    assert named(asked, "max_split_size_mb:512").peak_reserved_bytes == 1400 * MIB


def test_garbage_collection_names_the_limit_that_it_needs():
    """A limit of 1000 MiB, collection from 800 on: 250 in use and 600 cached when 310 are asked for. Both cached
    blocks are equally old, and go at once; without collection a retry does it."""
    recorder = Recorder(PLAIN, 1000 * MIB)
    blocks = [recorder.malloc(size * MIB) for size in (300, 302, 250)]
    for block in blocks[:2]:
        free(recorder, block)
    recorder.malloc(310 * MIB)
    answer = ask(recorder, "garbage_collection_threshold:0.8", capacity_bytes=1000 * MIB)
    own, collected = answer.trials
    assert (own.retries, own.releases) == (1, 2)
    assert (collected.retries, collected.releases) == (0, 2)
    assert "set_per_process_memory_fraction, here such that PyTorch may have 1000.00 MiB" in collected.change
    unknown = ask(pinned(MIB), "garbage_collection_threshold:0.8")
    assert "Without a limit this does nothing" in unknown.trials[1].caveat
    assert "garbage_collection_threshold:0.8" not in [trial.setting for trial in ask(pinned(MIB)).trials]


def test_settings_lie_over_those_of_the_job():
    """The job's own rounding stays: 136 MiB are 160 in every trial but the one that takes all settings away."""
    recorder = Recorder(AllocatorSettings(torch=(2, 6), roundup_power2_divisions=(4,) * 16))
    recorder.malloc(136 * MIB)
    answer = ask(recorder, "expandable_segments:True", "defaults")
    assert [trial.peak_reserved_bytes for trial in answer.trials] == [160 * MIB, 160 * MIB, 136 * MIB]


def test_collection_that_the_job_had_is_not_simulated_and_the_answer_says_so():
    recorder = Recorder(replace(PLAIN, garbage_collection_threshold=0.5))
    recorder.malloc(136 * MIB)
    for trial in ask(recorder, "expandable_segments:True", capacity_bytes=1000 * MIB).trials:
        assert "below a limit, which no snapshot holds" in trial.caveat
        assert "set_per_process_memory_fraction" not in trial.change


def test_what_is_on_is_switched_off():
    recorder = Recorder(AllocatorSettings(torch=(2, 6), expandable_segments=True))
    recorder.malloc(30 * MIB)
    answer = ask(recorder)
    assert named(answer, "").peak_reserved_bytes == 40 * MIB
    assert named(answer, "expandable_segments:False").peak_reserved_bytes == 30 * MIB
    assert [trial.setting for trial in answer.trials].count("expandable_segments:True") == 0


def test_a_setting_that_decides_nothing_says_so():
    recorder = full_card()
    answer = ask(recorder, "pinned_use_background_threads:True", "expandable_segments:False", "empty_cache")
    assert "does not decide where blocks go" in answer.trials[1].caveat
    assert "The job had this already." in answer.trials[2].caveat
    assert "No phase or step was found" in answer.trials[3].caveat
    assert len({trial.peak_reserved_bytes for trial in answer.trials}) == 1


@pytest.mark.parametrize(
    ("text", "error", "reason"),
    [
        ("max_split_size_mb:10", SettingsError, "max_split_size_mb too small, must be > 20"),
        ("garbage_collection_threshold:2", SettingsError, "too big"),
        ("expandable_segments:yes", SettingsError, "True/False"),
        ("large_segment_size_mb:64", SettingsError, "large_segment_size_mb"),  # 2.6 does not know it
        ("rubbish", SettingsError, "rubbish"),
        ("capacity:lots", UsageError, "write a size"),
        ("backend:cudaMallocAsync", UsageError, "native allocator"),
        ("", UsageError, "needs a setting"),
    ],
)
def test_what_pytorch_refuses_is_refused_with_its_reason(text: str, error: type[Exception], reason: str):
    with pytest.raises(error, match=reason):
        ask(full_card(), text)


def test_several_streams_and_a_trace_that_does_not_fit_are_caveats():
    recorder = full_card()
    recorder.malloc(2 * MIB, stream=7)
    assert all("Several streams" in trial.caveat for trial in ask(recorder).trials)
    odd = Recorder(PLAIN)
    odd.malloc(3 * MIB)
    odd.events.append({"action": "segment_alloc", "addr": 1 << 30, "size": 64 * MIB, "stream": 0})
    answer = ask(odd)
    assert all("does not give what the trace shows" in trial.caveat for trial in answer.trials)


def test_without_history_there_is_nothing_to_replay():
    recorder = Recorder(PLAIN)
    answer = ask(recorder)
    assert (answer.trials, answer.worth_trying) == ((), None)
    with pytest.raises(SettingsError):
        ask(recorder, "rubbish")
