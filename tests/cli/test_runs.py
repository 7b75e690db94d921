"""`oomph runs`: from a command line to an answer and an exit code."""

from __future__ import annotations

import importlib
import json
import pickle
from typing import Any

import pytest

from oomph.report.runs.json import read_schema
from oomph.units import MIB
from tests.cli.snapshots import job
from tests.recording_store.fakes import write_run

jsonschema: Any = importlib.import_module("jsonschema")  # untyped unless its stubs are installed


@pytest.fixture
def recorded(tmp_path):
    """Six runs in ./oomph-runs: five that are alike, and one with a batch twice as large that failed."""
    root = tmp_path / "oomph-runs"
    for number in range(5):
        write_run(root, number, settings={"seed": str(number)})
    write_run(
        root, 9, rows=8, fails_at=1, name="bigger", settings={"arguments.per_device_train_batch_size": "8"}
    )
    return root


@pytest.mark.usefixtures("recorded")
class TestList:
    def test_newest_first(self, run):
        done = run("runs", "list")
        assert done.exit_code == 0
        heads = [line for line in done.stdout.splitlines() if line.startswith("2026")]
        assert heads[0].startswith("20261122-0009-")
        assert "oom in backward" in heads[0]
        assert len(heads) == 6

    def test_failed_limit_query(self, run):
        assert run("runs", "list", "--failed").stdout.count("20261122-") == 1
        done = run("runs", "list", "--limit", "2")
        assert done.stdout.count("20261122-") == 2
        assert "4 more" in done.stdout
        done = run("runs", "list", "--query", "peak > 9GiB and outcome = oom and versions.torch ~ 2.6")
        assert done.stdout.count("20261122-") == 1
        assert run("runs", "list", "--failed", "--query", "peak < 9GiB").stdout == "No run matches.\n"

    def test_json_and_markdown(self, run):
        document = json.loads(run("runs", "list", "--format", "json").stdout)
        jsonschema.Draft202012Validator(json.loads(read_schema("runs-list"))).validate(document)
        assert len(document["runs"]) == 6
        assert run("runs", "list", "--format", "markdown").stdout.count("\n| 20261122-") == 6

    def test_what_makes_no_sense(self, run):
        done = run("runs", "list", "--query", "peak >")
        assert done.exit_code == 2
        assert done.stderr == "oomph: --query: expected a value after > at character 7, found the end\n"
        assert "did you mean" in run("runs", "list", "--query", "outcom = oom").stderr


def test_no_run_is_no_error(run):
    done = run("runs", "list")
    assert (done.exit_code, done.stdout) == (0, "No run is recorded below oomph-runs.\n")
    assert run("runs", "show", "last").exit_code == 2


@pytest.mark.usefixtures("recorded")
class TestShow:
    def test_text(self, run):
        done = run("runs", "show", "last-failed")
        assert done.exit_code == 0
        assert "(bigger): rank 0 ran out of memory in backward" in done.stdout
        assert "Peaks per phase and rank" in done.stdout

    def test_json_to_a_file(self, run, tmp_path):
        done = run("runs", "show", "bigger", "--format", "json", "-o", "show.json")
        assert (done.exit_code, done.stdout, done.stderr) == (0, "", "wrote show.json\n")
        document = json.loads((tmp_path / "show.json").read_text())
        jsonschema.Draft202012Validator(json.loads(read_schema("runs-show"))).validate(document)

    def test_no_such_run(self, run):
        done = run("runs", "show", "20261122")
        assert done.exit_code == 2
        assert "6 runs are called so" in done.stderr


@pytest.mark.usefixtures("recorded")
class TestDiff:
    def test_two(self, run):
        done = run("runs", "diff", "20261122-0000", "last")
        assert done.exit_code == 1
        assert "1. arguments.per_device_train_batch_size: 4 -> 8 (explains it; batch)" in done.stdout
        assert "cannot be planned" in done.stdout
        assert "cannot be planned" not in run("runs", "diff", "20261122-0000", "last", "--no-plan").stdout

    def test_equal_ones(self, run):
        done = run("runs", "diff", "20261122-0000", "20261122-0001")
        assert done.exit_code == 0
        assert "memory is the same" in done.stdout

    @pytest.mark.parametrize("against", ["all", "outcome = completed"])
    def test_against_many(self, run, against):
        done = run("runs", "diff", "last-failed", "--against", against, "--format", "json")
        assert done.exit_code == 1
        document = json.loads(done.stdout)
        jsonschema.Draft202012Validator(json.loads(read_schema("runs-diff"))).validate(document)
        assert len(document["others"]) == 5
        assert document["suspects"][0]["change"]["fact"] == "arguments.per_device_train_batch_size"

    def test_several_by_name(self, run):
        done = run("runs", "diff", "20261122-0000", "20261122-0001", "last", "--format", "markdown")
        assert done.exit_code == 1
        assert done.stdout.startswith("**20261122-0009-")
        assert "against 2 others" in done.stdout

    @pytest.mark.parametrize(
        ("arguments", "says"),
        [
            (["last"], "one run is named"),
            (["last", "last"], "against itself"),
            (["20261122-0000", "last", "--against", "all"], "name one"),
            (["last", "--against", "outcome = killed"], "no other run is so"),
        ],
    )
    def test_what_cannot_be_compared(self, run, arguments, says):
        done = run("runs", "diff", *arguments)
        assert done.exit_code == 2
        assert says in done.stderr


@pytest.mark.usefixtures("recorded")
class TestElsewhere:
    def test_export(self, run, tmp_path):
        done = run("runs", "export", "last", "--prometheus", "job.prom")
        assert (done.exit_code, done.stderr) == (0, "wrote job.prom\n")
        assert "oomph_phase_peak_allocated_bytes{" in (tmp_path / "job.prom").read_text()
        assert run("runs", "export", "last").exit_code == 2
        assert run("runs", "export", "last", "--prometheus", "none/job.prom").exit_code == 2

    def test_copy_and_use(self, run, tmp_path):
        assert run("runs", "copy", "bigger", "kept").exit_code == 0
        assert run("runs", "list", "--runs", "kept").stdout.count("20261122-") == 1
        assert run("runs", "list", "--runs", "kept", "--runs", "oomph-runs").stdout.count("20261122-") == 7

    def test_help_names_all(self, run):
        text = run("runs", "--help").stdout
        for name in ("list", "show", "diff", "export", "copy"):
            assert f"\n  {name}" in text


def test_two_failures_are_compared_category_by_category(run, tmp_path):
    """One with 4 blocks of activations, one with 6, by PyTorch's own snapshots of the requests that failed."""
    root = path = tmp_path / "oomph-runs"
    for number, blocks in enumerate((4, 6)):
        path = write_run(root, number, fails_at=1, name=f"failed-{number}", world=1)
        folder = path / "oom" / "rank-00000"
        folder.mkdir(parents=True)
        (folder / "snapshot.pickle").write_bytes(pickle.dumps(job(blocks=blocks)))
    done = run("runs", "diff", "failed-0", "failed-1", "--format", "json", "--no-plan")
    memory = {each["fact"]: each for each in json.loads(done.stdout)["memory"]}
    held = {name: each for name, each in memory.items() if name.startswith("category.")}
    assert sum(each["before"] or 0 for each in held.values()) == 4 * 32 * MIB
    assert sum(each["after"] or 0 for each in held.values()) == 6 * 32 * MIB
    (path / "oom" / "rank-00000" / "snapshot.pickle").write_bytes(b"no pickle")
    done = run("runs", "diff", "failed-0", "failed-1", "--no-plan")
    assert done.exit_code == 0
    assert "snapshot.pickle cannot be read" in done.stdout
