from __future__ import annotations

import gzip
import importlib
import io
import json
import os
import pickle
from typing import Any

import pytest

from oomph.cli.progress import LARGE_BYTES, Progress
from oomph.report.snapshot.json import read_schema
from oomph.units import MIB
from tests.cli.snapshots import job
from tests.evidence.snapshot.build import BASE, block, segment, snapshot

jsonschema: Any = importlib.import_module("jsonschema")  # untyped unless its stubs are installed


class TestOneSnapshot:
    def test_a_request_that_failed_exits_with_one(self, run, files):
        result = run("snapshot", "oom.pickle")
        assert (result.exit_code, result.stderr) == (1, "")
        assert result.stdout.startswith("GPU 0: a request of 64.00 MiB failed")
        # 4 blocks of 32 MiB; 64 MiB asked for, 1 MiB free.
        assert "allocated       128.00 MiB" in result.stdout
        assert "Asked for 64.00 MiB, 1024.00 KiB was free: 63.00 MiB short." in result.stdout
        assert "forward gpt/model.py:12" in result.stdout
        assert "Read oom.pickle" in result.stdout

    def test_a_job_that_ran_through_exits_with_zero(self, run, files):
        result = run("snapshot", "fine.pickle")
        assert (result.exit_code, result.stderr) == (0, "")
        assert result.stdout.startswith("GPU 0: no request failed; at most 128.00 MiB was allocated")

    def test_exit_zero(self, run, files):
        assert run("snapshot", "--exit-zero", "oom.pickle").exit_code == 0
        assert run("snapshot", "--exit-zero", "nothing.pickle").exit_code == 2

    def test_a_packed_snapshot(self, run, files):
        (files / "packed.pickle.gz").write_bytes(gzip.compress((files / "oom.pickle").read_bytes()))
        assert run("snapshot", "packed.pickle.gz").exit_code == 1

    def test_json_is_of_the_published_shape(self, run, files):
        result = run("snapshot", "--format", "json", "--what-if", "all", "oom.pickle")
        answer = json.loads(result.stdout)
        jsonschema.validate(answer, json.loads(read_schema()), jsonschema.Draft202012Validator)
        device = answer["snapshots"][0]["devices"][0]
        assert device["failure"]["request_bytes"] == 64 * MIB
        assert device["failure"]["free_bytes"] == MIB
        assert sum(share["bytes"] for share in device["shares"]) == 128 * MIB
        assert device["what_if"]["trials"][0]["setting"] == ""
        assert result.exit_code == answer["exit_code"] == 1

    def test_markdown(self, run, files):
        assert run("snapshot", "--format", "markdown", "oom.pickle").stdout.startswith(
            "### GPU 0: a request of"
        )

    def test_html(self, run, files):
        result = run("snapshot", "--format", "html", "-o", "page.html", "oom.pickle")
        assert (result.exit_code, result.stdout, result.stderr) == (1, "", "wrote page.html\n")
        text = (files / "page.html").read_text(encoding="utf-8")
        assert text.lower().startswith("<!doctype html>")
        assert "http-equiv" in text

    def test_the_format_of_the_project(self, run, files):
        (files / "oomph.toml").write_text('format = "markdown"', encoding="utf-8")
        assert run("snapshot", "oom.pickle").stdout.startswith("### ")
        (files / "oomph.toml").write_text('format = "sarif"', encoding="utf-8")  # for `explain`
        assert run("snapshot", "oom.pickle").stdout.startswith("GPU 0")

    def test_another_moment(self, run, files):
        # Event 3 is the second allocation: two blocks of 32 MiB are there.
        for at in ("3", "0.6s"):
            text = run("snapshot", "--at", at, "oom.pickle").stdout
            (total,) = (line.split() for line in text.splitlines() if line.startswith("  in all "))
            assert total == ["in", "all", "64.00", "MiB", "2"]
        assert "Shown is the moment that was asked for" in run("snapshot", "--at", "3", "oom.pickle").stdout

    def test_what_if(self, run, files):
        result = run("snapshot", "--what-if", "capacity:1GiB", "oom.pickle")
        assert "capacity:1GiB" in result.stdout
        assert "\nWhat if\n" in result.stdout
        assert "\nWhat if\n" not in run("snapshot", "oom.pickle").stdout

    def test_verbose_says_what_was_read_and_shows_stacks(self, run, files):
        result = run("snapshot", "-v", "oom.pickle")
        size = (files / "oom.pickle").stat().st_size
        assert f"oomph: read oom.pickle: {size:,} bytes, 9 events" in result.stderr
        assert "/home/zqalice/gpt/train.py:40, in train" in result.stdout
        assert run("snapshot", "-v", "-q", "oom.pickle").stderr == ""

    def test_redact(self, run, files):
        os.mkdir("zqalice-node17")
        os.rename("oom.pickle", "zqalice-node17/oom.pickle")
        for output_format in ("text", "markdown", "json", "html"):
            result = run(
                "snapshot", "--redact", "-v", "--all", "--format", output_format, "zqalice-node17/oom.pickle"
            )
            assert result.exit_code == 1
            assert "zqalice" not in result.stdout + result.stderr
        result = run("snapshot", "--redact", "zqalice-node17/no.pickle")
        assert (result.exit_code, "zqalice" in result.stderr) == (2, False)

    def test_colour(self, run, files):
        assert "\x1b[" in run("snapshot", "--color", "always", "oom.pickle").stdout
        assert "\x1b[" not in run("snapshot", "oom.pickle").stdout

    def test_rules(self, run, files):
        assert "OOM" in run("snapshot", "oom.pickle").stdout
        assert "OOM" not in run("snapshot", "--ignore", "OOM", "oom.pickle").stdout
        result = run("snapshot", "--select", "OOM9999", "oom.pickle")
        assert (result.exit_code, "--select" in result.stderr) == (2, True)


class TestSeveral:
    def test_two_are_compared(self, run, files):
        result = run("snapshot", "fine.pickle", "more.pickle")
        assert (result.exit_code, result.stderr) == (0, "")
        # 6 blocks of 32 MiB against 4.
        assert "+64.00 MiB" in result.stdout
        assert "\nBy stack\n" in result.stdout
        assert "\nEach by itself\n" in result.stdout

    def test_the_exit_code_is_that_of_the_worst(self, run, files):
        assert run("snapshot", "fine.pickle", "oom.pickle").exit_code == 1

    def test_no_compare_shows_each(self, run, files):
        result = run("snapshot", "--no-compare", "fine.pickle", "oom.pickle")
        assert result.stdout.count("\nWhat was alive\n") == 2

    @pytest.mark.parametrize("output_format", ["json", "markdown"])
    def test_other_formats(self, run, files, output_format):
        result = run("snapshot", "--format", output_format, "fine.pickle", "more.pickle")
        assert result.exit_code == 0
        if output_format == "json":
            answer = json.loads(result.stdout)
            jsonschema.validate(answer, json.loads(read_schema()), jsonschema.Draft202012Validator)
            sides = answer["comparison"]["sides"]
            assert [side["allocated_bytes"] for side in sides] == [128 * MIB, 192 * MIB]

    def test_ranks(self, run, files):
        for rank in range(4):
            (files / f"rank{rank}.pickle").write_bytes(
                pickle.dumps(job(fails=False, blocks=12 if rank == 2 else 4))
            )
        result = run("snapshot", *(f"rank{rank}.pickle" for rank in range(4)))
        assert "rank 2: +256.00 MiB" in result.stdout

    def test_the_devices_of_one_snapshot(self, run, files):
        both = job(fails=False)
        other = job(fails=False, blocks=6)
        both["segments"] += [{**one, "device": 1} for one in other["segments"]]
        both["device_traces"] += other["device_traces"]
        (files / "both.pickle").write_bytes(pickle.dumps(both))
        assert "device 1" not in run("snapshot", "both.pickle").stdout
        result = run("snapshot", "--compare", "both.pickle")
        assert result.exit_code == 0
        assert "device 1" in result.stdout
        assert "+64.00 MiB" in result.stdout  # 6 blocks of 32 MiB against 4

    def test_one_that_cannot_be_read_does_not_hide_the_others(self, run, files):
        (files / "bad.pickle").write_bytes(b"")
        result = run("snapshot", "oom.pickle", "bad.pickle", "fine.pickle")
        assert result.exit_code == 1
        assert result.stderr == "oomph: bad.pickle is empty. Dump the snapshot again.\n"
        assert "fine.pickle: GPU 0: no request failed" in " ".join(result.stdout.split())
        answer = json.loads(run("snapshot", "--format", "json", "oom.pickle", "bad.pickle").stdout)
        assert answer["unreadable"] == ["bad.pickle is empty. Dump the snapshot again."]

    def test_none_that_can_be_read(self, run, files):
        (files / "bad.pickle").write_bytes(b"")
        result = run("snapshot", "bad.pickle", "nothing.pickle")
        assert (result.exit_code, result.stdout) == (2, "")
        assert len(result.stderr.splitlines()) == 2


class TestExports:
    def test_each_ending_by_its_name(self, run, files):
        result = run(
            "snapshot",
            "--export",
            "a.csv",
            "--export",
            "b.speedscope.json",
            "--export",
            "c.pickle",
            "oom.pickle",
        )
        assert result.exit_code == 1
        assert result.stderr == "wrote a.csv\nwrote b.speedscope.json\nwrote c.pickle\n"
        assert len((files / "a.csv").read_text(encoding="utf-8").splitlines()) == 1 + 9
        assert "$schema" in json.loads((files / "b.speedscope.json").read_text(encoding="utf-8"))
        assert run("snapshot", "c.pickle").exit_code == 1

    @pytest.mark.parametrize(
        ("window", "events"),
        [("2:6", 4), (":4", 4), ("4:", 5), ("0s:0.6s", 4), ("0.5s:", 7), ("1.2s:1.3s", None)],
    )
    def test_a_window(self, run, files, window, events):
        # Events 0-7 come in pairs at 0, 0.5, 1 and 1.5 seconds; event 8, the failure, at 9 seconds.
        result = run("snapshot", "--export", "a.csv", "--window", window, "oom.pickle")
        if events is None:
            assert (result.exit_code, "holds no events" in result.stderr) == (2, True)
        else:
            assert len((files / "a.csv").read_text(encoding="utf-8").splitlines()) == 1 + events

    def test_quiet(self, run, files):
        assert run("snapshot", "-q", "--export", "a.csv", "oom.pickle").stderr == ""


def test_a_snapshot_of_a_process_that_used_no_gpu(run, files):
    (files / "unused.pickle").write_bytes(pickle.dumps(snapshot([], [[], []])))
    result = run("snapshot", "unused.pickle")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith("The snapshot is empty")
    for output_format in ("json", "markdown", "html"):
        assert run("snapshot", "--format", output_format, "unused.pickle").exit_code == 0
    result = run("snapshot", "--export", "a.csv", "unused.pickle")
    assert (result.exit_code, "nothing to export" in result.stderr) == (2, True)
    assert run("snapshot", "unused.pickle", "oom.pickle").exit_code == 1


def test_a_snapshot_without_history_or_stacks(run, files):
    place = BASE
    bare = snapshot([segment(place, [block(place, 32 * MIB)], segment_type="large")], [[]])
    (files / "bare.pickle").write_bytes(pickle.dumps(bare))
    result = run("snapshot", "bare.pickle")
    assert result.stdout.startswith("GPU 0: no history was recorded; PyTorch held 32.00 MiB")
    assert "_record_memory_history" in result.stdout


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["--at", "pe"], ["peak-allocated", "peak-reserved"]),
        (["--what-if", "ex"], ["expandable_segments:True"]),
        (["--format", "h"], ["html"]),
        (["--select", "OOM301"], ["OOM301"]),
    ],
)
def test_the_shell_completes_values(words, offered):
    from click.shell_completion import ShellComplete

    from oomph.cli.main import cli

    completer = ShellComplete(cli, {}, "oomph", "_OOMPH_COMPLETE")
    found = completer.get_completions(["snapshot", *words[:-1]], words[-1])
    assert [item.value for item in found] == offered


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_what_is_being_done_to_a_large_file_is_said_on_a_terminal():
    screen = Terminal()
    progress = Progress(screen)
    progress.stage("reading 9 MB", LARGE_BYTES - 1)
    assert screen.getvalue() == ""
    progress.stage("reading 98 MB", LARGE_BYTES + 1)
    assert screen.getvalue() == "\rreading 98 MB"
    progress.finish()
    assert screen.getvalue().endswith("\r")
    quiet = Terminal()
    Progress(quiet, quiet=True).stage("reading 98 MB", LARGE_BYTES + 1)
    assert quiet.getvalue() == ""
