"""The command line of `oomph record`; what a command sees of it is in tests/recording_command."""

from __future__ import annotations

import signal
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from oomph.phases import Phase
from oomph.recording.command.model import Asked, Ended
from tests.cli.fakes import diagnosis
from tests.evidence.run.making import Maker


@dataclass
class FakeRecorder:
    """Runs nothing; remembers what it was asked."""

    ended: Ended = field(default_factory=lambda: Ended(0, None, 1.0, None))
    asked: list[Asked] = field(default_factory=list)

    def __call__(self, asked, started, environment, say) -> Ended:
        self.asked.append(asked)
        return self.ended


@pytest.fixture
def recorder(monkeypatch) -> FakeRecorder:
    fake = FakeRecorder()
    monkeypatch.setattr("oomph.recording.command.record.record", fake)
    return fake


def test_the_command_and_its_own_options_are_left_alone(run, recorder):
    result = run(
        "record", "--every", "250ms", "--", "torchrun", "--nproc-per-node", "8", "train.py", "--every", "5"
    )
    assert result.exit_code == 0
    (asked,) = recorder.asked
    assert asked.command == ("torchrun", "--nproc-per-node", "8", "train.py", "--every", "5")
    assert (asked.every, asked.auto, asked.run_dir, asked.keep_bytes) == (0.25, True, None, 2 << 30)


def test_without_the_dashes(run, recorder):
    run("record", "--no-auto", "python", "train.py", "--no-auto")
    assert recorder.asked[0].command == ("python", "train.py", "--no-auto")
    assert recorder.asked[0].auto is False


def test_name_tags_folder_and_size(run, recorder):
    run(
        "record",
        "--name",
        "n",
        "--tag",
        "a=1",
        "--tag",
        "b=x=y",
        "--run-dir",
        "r",
        "--keep",
        "10MiB",
        "--",
        "true",
    )
    asked = recorder.asked[0]
    assert (asked.name, dict(asked.tags), asked.run_dir) == ("n", {"a": "1", "b": "x=y"}, Path("r"))
    assert asked.keep_bytes == 10 << 20


@pytest.mark.parametrize(
    ("text", "seconds"), [("1", 1.0), ("2s", 2.0), ("0", 0.0), ("1.5min", 90.0), ("1ms", 0.01), ("0s", 0.0)]
)
def test_times(run, recorder, text, seconds):
    run("record", "--every", text, "--", "true")
    assert recorder.asked[0].every == pytest.approx(seconds)


@pytest.mark.parametrize(
    "words",
    [
        ("--every", "soon", "--", "true"),
        ("--every", "-1s", "--", "true"),
        ("--keep", "much", "--", "true"),
        ("--tag", "novalue", "--", "true"),
        (),
    ],
)
def test_what_makes_no_sense_starts_nothing(run, recorder, words):
    result = run("record", *words)
    assert result.exit_code == 2
    assert result.stderr
    assert recorder.asked == []


@pytest.mark.parametrize("code", [1, 3, 143, 255])
def test_the_exit_code_is_the_command_s(run, recorder, code):
    recorder.ended = Ended(code, None, 1.0, None)
    assert run("record", "--", "false").exit_code == code


def failed_run(path: Path) -> Path:
    made = Maker(path)
    made.begin(0)
    made.oom(0, Phase.BACKWARD, 3)
    made.end(0, "oom")
    made.finish(1)
    return path


def test_a_failure_is_explained_on_stderr(run, recorder, tmp_path):
    recorder.ended = Ended(1, None, 1.0, failed_run(tmp_path / "r"))
    result = run("record", "--", "false")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "out of memory in backward on rank 0" in result.stderr
    assert f"recorded in {tmp_path / 'r'}" in result.stderr


def test_what_is_not_explained(run, recorder, tmp_path):
    folder = failed_run(tmp_path / "r")
    for code, number, words in (
        (1, None, ("--no-explain",)),
        (0, None, ()),
        (127, None, ()),
        (130, signal.SIGINT, ()),
        (130, None, ()),
    ):
        recorder.ended = Ended(code, number, 1.0, folder)
        result = run("record", *words, "--", "false")
        assert "out of memory" not in result.stderr
        assert result.exit_code == code


def test_quiet_says_nothing_but_the_explanation(run, recorder, tmp_path):
    recorder.ended = Ended(0, None, 1.0, tmp_path)
    assert run("record", "-q", "--", "true").stderr == ""


def test_an_explanation_that_fails_changes_no_exit_code(run, recorder, tmp_path, monkeypatch):
    def explain(*_, **__):
        raise RuntimeError("a bug")

    monkeypatch.setattr("oomph.api.explain", explain)
    recorder.ended = Ended(9, None, 1.0, failed_run(tmp_path / "r"))
    result = run("record", "--", "false")
    assert result.exit_code == 9
    assert "could not be explained (RuntimeError: a bug)" in result.stderr


def test_a_run_directory_is_explained_by_its_name(run, tmp_path):
    failed_run(tmp_path / "r")
    result = run("explain", "r")
    assert result.exit_code == 1
    assert "out of memory in backward on rank 0" in result.stdout


def test_paths_without_records_go_the_old_way(run, engine):
    engine.answer = diagnosis()
    assert run("explain", "train.log").exit_code == engine.answer.exit_code
