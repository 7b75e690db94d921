"""`oomph explain A B`, with the real engine: two runs are compared, two parts of one run are explained together."""

from __future__ import annotations

import pytest

MESSAGE = (
    "Traceback (most recent call last):\n"
    '  File "/srv/train.py", line 60, in main\n'
    "    loss.backward()\n"
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {request} GiB. GPU 0 has a total capacity of "
    "79.11 GiB of which {free} GiB is free. Including non-PyTorch memory, this process has {process} GiB memory in "
    "use. Of the allocated memory {allocated} GiB is allocated by PyTorch, and 0.50 GiB is reserved by PyTorch but "
    "unallocated.\n"
)


@pytest.fixture
def runs(tmp_path):
    # 79.11 = 0.61 + 78.50 and 79.11 = 0.31 + 78.80; the second run has 0.30 GiB more allocated.
    a = MESSAGE.format(request="1.00", free="0.61", process="78.50", allocated="76.80")
    b = MESSAGE.format(request="1.50", free="0.31", process="78.80", allocated="77.10")
    (tmp_path / "monday.log").write_text("micro_batch=8\n" + a, encoding="utf-8")
    (tmp_path / "tuesday.log").write_text("micro_batch=12\n" + b, encoding="utf-8")
    return "monday.log", "tuesday.log"


def differing(text, what):
    return [line.split() for line in text.splitlines() if line.startswith(f"* {what}")]


def test_two_failed_runs_are_compared(run, runs):
    result = run("explain", *runs)
    assert result.exit_code == 1
    assert "monday.log" in result.stdout.splitlines()[0]
    assert "tuesday.log" in result.stdout.splitlines()[0]
    assert differing(result.stdout, "allocated") == [["*", "allocated", "76.80", "GiB", "77.10", "GiB"]]
    assert differing(result.stdout, "capacity") == []


def test_the_two_may_be_explained_together_all_the_same(run, runs):
    assert run("explain", "--no-compare", *runs).stdout.startswith("CUDA out of memory in backward")


@pytest.mark.parametrize("options", [["--format", "json"], ["--rank", "0"]])
def test_what_only_one_answer_can_have_is_not_compared(run, runs, options):
    result = run("explain", *options, *runs)
    assert "* allocated" not in result.output


def test_the_same_failure_in_two_files_is_one_run(run, runs, tmp_path):
    (tmp_path / "copy.log").write_bytes((tmp_path / "monday.log").read_bytes())
    assert run("explain", "monday.log", "copy.log").stdout.startswith("CUDA out of memory in backward")


def test_a_log_without_a_failure_is_part_of_the_run(run, runs, tmp_path):
    (tmp_path / "stdout.log").write_text("step 1 loss 2.0\nstep 2 loss 1.9\n", encoding="utf-8")
    assert run("explain", "stdout.log", "monday.log").stdout.startswith("CUDA out of memory in backward")


def test_compare_can_be_forced(run, runs, tmp_path):
    (tmp_path / "works.log").write_text("step 1 loss 2.0\nstep 2 loss 1.9\n", encoding="utf-8")
    result = run("explain", "--compare", "works.log", "tuesday.log")
    assert result.exit_code == 1
    assert "works.log" in result.stdout.splitlines()[0]


def test_a_comparison_goes_to_a_file_too(run, runs, tmp_path):
    result = run("explain", "--compare", "-o", "differs.txt", "--exit-zero", *runs)
    assert (result.exit_code, result.stdout) == (0, "")
    assert "* allocated" in (tmp_path / "differs.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["monday.log"], "two paths"),
        (["monday.log", "-"], "two paths"),
        (["monday.log", "tuesday.log", "monday.log"], "two paths"),
        (["--format", "json", "monday.log", "tuesday.log"], "--format"),
        (["--rank", "1", "monday.log", "tuesday.log"], "--rank"),
        (["--follow", "monday.log", "tuesday.log"], "--follow"),
    ],
)
def test_what_cannot_be_compared_is_said(run, runs, arguments, words):
    result = run("explain", "--compare", *arguments)
    assert result.exit_code == 2
    assert result.stderr.startswith("oomph: --compare")
    assert words in result.stderr
