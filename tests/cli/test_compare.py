"""`oomph explain A B`, with the real engine: two runs are compared, two parts of one run are explained together."""

from __future__ import annotations

import json

import pytest

from tests.diagnose import logs

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


def message(device=0, total="79.15", *, head=""):
    """1.05 + 78.10 = 79.15 GiB and 76.40 + 1.10 + 0.60 = 78.10 GiB; another `total` is free by as much more."""
    free = f"{float(total) - 78.10:.2f} GiB" if float(total) > 78.10 else "0.55 GiB"
    frames = ["/srv/train.py:70 in main: loss.backward()"]
    return head + logs.traceback(frames, logs.oom(gpu=device, total=f"{total} GiB", free=free))


class TestOneJobOrTwo:
    """What the files say of the job decides, then their names and devices."""

    def compared(self, run, tmp_path, a, b, names=("a.log", "b.log"), arguments=()):
        for name, text in zip(names, (a, b), strict=True):
            (tmp_path / name).write_text(text, encoding="utf-8")
        result = run("explain", *arguments, *names)
        assert result.exit_code == 1
        return not result.stdout.startswith("CUDA out of memory")

    @pytest.mark.parametrize(
        "names",
        [
            ("rank0.log", "rank1.log"),
            ("out-rank-3-x.log", "out-rank-12-x.log"),
            ("worker_0.txt", "worker_1.txt"),
            ("node0001.err", "node0002.err"),
            ("x-0.out", "x-1.out"),
            ("train.0.log", "train.1.log"),
        ],
    )
    def test_names_that_count_ranks_are_of_one_job(self, run, tmp_path, names):
        a, b = message(head="step 17\n"), message().replace("1.05 GiB is free", "1.04 GiB is free")
        assert not self.compared(run, tmp_path, a, b, names)

    @pytest.mark.parametrize(
        "names",
        [
            ("run1.log", "run2.log"),
            ("slurm-81234.out", "slurm-81240.out"),
            ("2026-11-01.log", "2026-11-02.log"),
        ],
    )
    def test_names_that_count_runs_are_of_two(self, run, tmp_path, names):
        assert self.compared(run, tmp_path, message(), message().replace("76.40 GiB", "76.50 GiB"), names)

    def test_other_devices_with_equal_settings_are_of_one_job(self, run, tmp_path):
        a, b = message(0, head="micro_batch=8\n"), message(1, head="micro_batch=8\n")
        assert not self.compared(run, tmp_path, a, b)

    def test_other_devices_with_other_settings_are_two_runs(self, run, tmp_path):
        a, b = message(0, head="micro_batch=8\n"), message(1, head="micro_batch=12\n")
        assert self.compared(run, tmp_path, a, b)

    @pytest.mark.parametrize(("second", "runs"), [("10:00:41", 1), ("11:30:00", 2)])
    def test_failures_within_a_minute_are_of_one_job(self, run, tmp_path, second, runs):
        a = "2026-11-03 10:00:02 step 17\n" + message()
        b = f"2026-11-03 {second} step 17\n" + message().replace("1.05 GiB is free", "1.04 GiB is free")
        assert self.compared(run, tmp_path, a, b) == (runs == 2)

    @pytest.mark.parametrize(
        ("a", "b"),
        [
            (message(head="torch 2.8.0+cu128\n"), message(1, head="torch 2.11.0+cu130\n")),
            (message(), message(1, "94.50")),
            (message(head="world_size=8\n"), message(1, head="world_size=16\n")),
            (
                message(head="total params: 7,000,000,000\n"),
                message(1, head="total params: 13,000,000,000\n"),
            ),
            (message(head='"zero_stage": 2,\n'), message(1, head='"zero_stage": 3,\n')),
        ],
    )
    def test_what_one_job_cannot_have_twice_means_two_runs(self, run, tmp_path, a, b):
        assert self.compared(run, tmp_path, a, b)
        together = " ".join(run("explain", "--no-compare", "a.log", "b.log").stdout.split())
        assert "The input looks like several jobs" in together

    def test_facts_of_another_job_are_not_shown(self, run, tmp_path):
        a = message(head="torch 2.8.0+cu128\nworld_size=8\n")
        b = message(head="torch 2.11.0+cu130\nmicro_batch=12\n")
        self.compared(run, tmp_path, a, b, arguments=["--no-compare", "--format", "json"])
        document = json.loads(run("explain", "--no-compare", "--format", "json", "a.log", "b.log").stdout)
        job = {fact["name"]: fact["value"] for fact in document["job"]}
        assert (job["torch_version"], job["world_size"]) == ("2.8.0+cu128", "8")
        assert "batch_size" not in job

    def test_a_comparison_has_both_answers_and_the_bounds(self, run, tmp_path):
        # 79.15 - 1.05 - 78.10 = 0.00 GiB are left for other processes, give or take the rounding of three numbers to
        # 0.01 GiB: 3 x 5.12 MiB.
        a, b = message(head="torch 2.8.0\n"), message(head="torch 2.11.0\n")
        assert self.compared(run, tmp_path, a, b)
        text = run("explain", "a.log", "b.log").stdout
        [row] = [line for line in text.splitlines() if line[2:].startswith("other processes")]
        assert row.count("\u2264 15.36 MiB") == 2
        for name in ("a.log", "b.log"):
            [answer] = [line for line in text.splitlines() if line.startswith(f"{name}: OOM")]
            assert answer
        assert text.count("First change: ") == 2

    def test_ranks_of_a_pipeline_hold_parts_of_a_model(self, run, tmp_path):
        # torchrun --log-dir: one folder per rank; the two stages have 3 and 4 thousand million parameters.
        for rank, parameters in enumerate(("3,000,000,000", "4,000,000,000")):
            folder = tmp_path / "logs" / "attempt_0" / str(rank)
            folder.mkdir(parents=True)
            text = message(rank, head=f"total params: {parameters}\n")
            (folder / "stderr.log").write_text(text, encoding="utf-8")
        result = run("explain", "logs")
        assert result.exit_code == 1
        assert "several jobs" not in result.stdout
