"""--follow, with a clock that the test moves: every sleep runs the next thing that the job does."""

from __future__ import annotations

from pathlib import Path

import pytest

from oomph import explain
from oomph.cli.follow import PATIENCE_SECONDS, SETTLE_SECONDS, Watch
from oomph.diagnose.model import Outcome
from oomph.errors import InputError, UsageError
from tests.cli.fakes import diagnosis
from tests.diagnose import logs

OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"


class Job:
    """Writes to a log over time; `explain` reads the log with the simplest possible rule."""

    def __init__(self, path, script):
        self.path = path
        self.script = dict(script)
        self.now = 1000.0
        self.explained_at = []
        self.said = []
        self.important = []

    def clock(self):
        return self.now

    def sleep(self, seconds):
        for due in sorted(self.script):
            if due <= self.now - 1000.0 + seconds:
                with self.path.open("a", encoding="utf-8") as stream:
                    stream.write(self.script.pop(due))
        self.now += seconds
        assert self.now < 2000.0, "the watch never ended"

    def explain(self):
        self.explained_at.append(self.now - 1000.0)
        text = self.path.read_text(encoding="utf-8")
        if not text:
            raise InputError("empty")
        if "CUDA out of memory" not in text:
            return diagnosis(Outcome.NO_OOM)
        return diagnosis(Outcome.RECOVERED if text.endswith("step 9\n") else Outcome.FAILED)

    def say(self, sentence, *, important=False):
        self.said.append(sentence)
        self.important += [sentence] if important else []

    def watch(self):
        return Watch([str(self.path)], self.explain, self.say, clock=self.clock, sleep=self.sleep).run()


@pytest.fixture
def job(tmp_path):
    def make(script, before=None):
        path = tmp_path / "train.log"
        if before is not None:
            path.write_text(before, encoding="utf-8")
        return Job(path, script)

    return make


def test_it_explains_when_the_failure_has_been_told(job):
    running = job({1: "step 1\n", 2: "step 2\n", 10: OOM, 11: "[rank1]: aborted\n"}, before="step 0\n")
    assert running.watch().outcome is Outcome.FAILED
    # Once at the start, once when nothing had come for the settling time; the last text came at 11.
    assert running.explained_at == [0.0, pytest.approx(11 + SETTLE_SECONDS, abs=1.0)]


def test_a_job_that_has_failed_already_is_explained_at_once(job):
    running = job({}, before=OOM)
    assert running.watch().outcome is Outcome.FAILED
    assert running.explained_at == [0.0]


def test_a_log_that_does_not_exist_yet(job):
    running = job({5: "step 0\n", 8: OOM})
    assert running.watch().outcome is Outcome.FAILED
    assert len(running.explained_at) == 1
    assert running.important == [f"{running.path} does not exist yet: waiting; Ctrl-C ends it"]


def finished(path):
    """The diagnosis of a log that may say that training finished, read by the real parsers."""
    return explain([path])


@pytest.mark.parametrize("before", ["step 0\n", None])
def test_it_ends_when_the_job_says_that_it_finished(job, before):
    running = job({1: "step 1\n", 20: "Training finished.\n", 21: "bye\n"}, before=before)
    running.explain = lambda: finished(running.path)
    assert running.watch().outcome is Outcome.NO_OOM
    assert running.now - 1000.0 == pytest.approx(21 + SETTLE_SECONDS, abs=1.0)


def test_it_ends_when_the_job_had_finished_already(job):
    running = job({}, before="step 0\nTraining finished.\n")
    running.explain = lambda: finished(running.path)
    assert running.watch().outcome is Outcome.NO_OOM
    assert running.now - 1000.0 == pytest.approx(SETTLE_SECONDS, abs=1.0)


def test_a_word_like_an_end_is_none(job):
    running = job({1: "Training has not finished yet.\n", 20: logs.oom() + "\n"}, before="step 0\n")
    running.explain = lambda: finished(running.path)
    assert running.watch().outcome is Outcome.FAILED


def test_an_error_that_is_no_failure_of_memory_does_not_end_the_watch(job):
    running = job({1: "RuntimeError: shape mismatch\n", 20: OOM})
    assert running.watch().outcome is Outcome.FAILED
    assert len(running.explained_at) == 2


def test_an_oom_that_the_job_survives_does_not_end_the_watch(job):
    running = job({1: OOM + "retrying with half the batch\nstep 9\n", 20: OOM})
    assert running.watch().outcome is Outcome.FAILED
    assert any("went on" in sentence for sentence in running.said)
    assert len(running.explained_at) == 2


def test_output_that_never_stops_does_not_delay_the_answer_for_ever(job):
    chatter = {second: f"[rank1]: still here {second}\n" for second in range(2, 200)}
    running = job({1: OOM, **chatter})
    running.watch()
    assert running.explained_at == [pytest.approx(1 + PATIENCE_SECONDS, abs=1.0)]


def test_a_sign_that_is_cut_by_a_poll_is_found(job):
    half = len("torch.OutOfMem")
    running = job({1: OOM[:half], 2: OOM[half:-1]})
    assert running.watch().outcome is Outcome.FAILED


def test_quiet_logs_are_not_read_again(job):
    running = job({second: f"step {second}\n" for second in range(1, 100)} | {100: OOM}, before="step 0\n")
    running.watch()
    assert len(running.explained_at) == 2


def test_reading_a_large_log_does_not_take_all_the_time(job):
    running = job(dict.fromkeys(range(1, 400, 5), "RuntimeError: caught, going on\n") | {401: OOM})
    explain = running.explain

    def slow():
        running.now += 4.0
        return explain()

    running.explain = slow
    running.watch()
    waits = [
        later - earlier
        for earlier, later in zip(running.explained_at, running.explained_at[1:], strict=False)
    ]
    assert min(waits) >= 40.0


@pytest.mark.parametrize("path", ["-", "."])
def test_what_cannot_be_watched_is_said(path):
    with pytest.raises(UsageError, match="--follow watches files"):
        Watch([path], diagnosis, Job(Path(path), {}).say)


def test_the_command_follows(run, engine, tmp_path):
    (tmp_path / "train.log").write_text("something", encoding="utf-8")
    result = run("explain", "--follow", "train.log")
    assert (result.exit_code, result.stdout) == (1, "text: the answer\n")
    assert run("explain", "--follow", "-").exit_code == 2
