"""Inputs that break careless tools: each gets one sentence and exit code 2, or a true answer."""

from __future__ import annotations

import gzip
import os

import pytest

from tests.diagnose.logs import BACKWARD, oom, traceback


def test_one_line(run, tmp_path):
    (tmp_path / "a.log").write_text("hello")
    result = run("explain", "a.log")
    assert result.exit_code == 0
    assert result.stdout.startswith("No out-of-memory failure found")


def test_ten_megabytes_on_one_line(run, tmp_path):
    (tmp_path / "a.log").write_text("x" * 10_000_000)
    assert run("explain", "a.log").exit_code == 0


@pytest.mark.parametrize("at", ["beginning", "middle", "end"])
def test_a_message_inside_ten_megabytes_on_one_line(run, tmp_path, at):
    junk = "lorem ipsum " * 400_000
    message = " " + oom() + " "
    text = {"beginning": message + junk * 2, "middle": junk + message + junk, "end": junk * 2 + message}[at]
    (tmp_path / "a.log").write_text(text)
    result = run("explain", "a.log")
    assert result.exit_code == 1
    assert "asking for 2.00 GiB" in " ".join(result.stdout.split())


@pytest.mark.skipif(
    not hasattr(os, "symlink") or os.name == "nt", reason="making links needs a privilege here"
)
def test_folders_that_contain_themselves(run, tmp_path):
    (tmp_path / "logs" / "deep").mkdir(parents=True)
    (tmp_path / "logs" / "deep" / "up").symlink_to(tmp_path / "logs", target_is_directory=True)
    (tmp_path / "logs" / "deep" / "train.log").write_text(traceback(BACKWARD, oom()))
    result = run("explain", "logs")
    assert result.exit_code == 1
    assert "1 memory failure" not in result.stdout  # it is read once, so nothing is counted twice
    assert "Read 1 file" in result.stdout


def test_a_folder_that_contains_only_itself(run, tmp_path):
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "self").symlink_to(tmp_path / "logs", target_is_directory=True)
    result = run("explain", "logs")
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1


def test_a_bomb_is_read_in_bounded_memory(run, tmp_path):
    """100 MB of zeros in a file of 100 kB."""
    with gzip.open(tmp_path / "a.log.gz", "wb") as file:
        for _ in range(100):
            file.write(bytes(1_000_000))
    assert run("explain", "a.log.gz").exit_code in (0, 2)


def test_terminal_escapes_of_a_log_do_not_reach_the_terminal(run, tmp_path):
    evil = "\x1b]0;owned\x07\x1b[2J\x1b[31mstep 1 loss 2.0\n"
    (tmp_path / "a.log").write_text(evil + traceback(BACKWARD, oom() + "\x1b[2J\x9b31m"))
    result = run("explain", "--all", "--explain-evidence", "--color", "never", "a.log")
    assert result.exit_code == 1
    assert "\x1b" not in result.stdout
    assert "\x9b" not in result.stdout
