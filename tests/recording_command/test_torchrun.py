"""`oomph record -- torchrun ...` with real ranks that really fail."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from oomph.api import explain
from oomph.diagnose.model import Diagnosis
from oomph.evidence.model import Kind
from oomph.evidence.run.data import Outcome, RunData
from oomph.evidence.run.read import read_run
from oomph.phases import Phase

pytest.importorskip("torch")
JOB = Path(__file__).with_name("job.py")


@dataclass
class Done:
    code: int
    out: str
    err: str
    run: RunData
    diagnosis: Diagnosis


def record(folder: Path, what: str, *options: str) -> Done:
    """A job of two ranks, on cards of 100 MiB that are simulated on the CPU."""
    words = [
        sys.executable,
        "-m",
        "oomph",
        "record",
        "-q",
        "--every",
        "250ms",
        "--run-dir",
        str(folder),
        "--",
    ]
    words += [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node",
        "2",
        *options,
    ]
    given = {**os.environ, "OOMPH_CPU_CAPACITY": "100MiB", "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    given.pop("OOMPH_RUN_DIR", None)
    done = subprocess.run(
        [*words, str(JOB), what], env=given, capture_output=True, text=True, timeout=240, check=False
    )
    return Done(done.returncode, done.stdout, done.stderr, read_run(folder), explain([folder]))


@pytest.fixture(scope="module")
def failed(tmp_path_factory) -> Done:
    """Rank 1 runs out of memory; torchrun names the ranks in what it prints."""
    return record(tmp_path_factory.mktemp("oom") / "run", "oom", "--tee", "3")


@pytest.fixture(scope="module")
def killed(tmp_path_factory) -> Done:
    """Rank 1 is killed with SIGKILL."""
    return record(tmp_path_factory.mktemp("kill") / "run", "kill")


def test_the_failing_rank_in_its_phase_with_its_ledger(failed):
    incident = failed.diagnosis.incident
    assert incident is not None
    assert (incident.rank, incident.phase.phase, incident.phase.evidence) == (1, Phase.FORWARD, "recorded")
    ledger = incident.ledger
    assert ledger.capacity_bytes == 100 << 20
    assert ledger.origins["allocated_bytes"] == "recorded"
    assert ledger.free_bytes is not None
    assert ledger.segment_bytes is not None
    assert ledger.segment_bytes > ledger.free_bytes
    assert len(failed.diagnosis.incidents) == 1, (
        "what is printed, recorded and in the snapshot is one failure"
    )


def test_the_other_rank_is_its_victim(failed):
    assert failed.run.outcome is Outcome.OOM
    assert failed.run.ranks[1].outcome is Outcome.OOM
    assert failed.diagnosis.ranks.first == 1
    assert list(failed.diagnosis.ranks.consequences) == [0]


def test_the_code_is_the_launcher_s_and_the_end_is_recorded(failed):
    assert failed.code == 1
    assert failed.run.end is not None
    assert failed.run.end.exit_code == 1


def test_output_came_through_and_is_kept_by_rank(failed):
    assert "[default0]:step 3 loss" in failed.out
    assert (Path(failed.run.path) / "job.out").read_text() == failed.out
    mine = (Path(failed.run.path) / "ranks/rank-00000.out").read_text()
    assert mine.startswith("step 0 loss")
    assert "OutOfMemoryError" in (Path(failed.run.path) / "ranks/rank-00001.err").read_text()
    assert "OutOfMemoryError" not in (Path(failed.run.path) / "ranks/rank-00000.err").read_text()


def test_it_was_explained_when_all_had_ended(failed):
    assert failed.err.count("out of memory in forward on rank 1") == 1
    assert "died of it" in failed.err


def test_a_kill_is_that_rank_s_in_the_phase_that_it_was_in(killed):
    assert killed.run.ranks[1].outcome is Outcome.KILLED
    doing = killed.run.ranks[1].doing
    assert doing is not None
    assert (doing.step, doing.certain) == (4, True)
    assert killed.diagnosis.ranks.first == 1
    incident = killed.diagnosis.incident
    assert incident is not None
    assert (incident.failure.kind, incident.rank) == (Kind.KILLED, 1)
    assert "Host memory when it was last read" in " ".join(killed.diagnosis.notes)


def test_the_processes_of_the_job_were_sampled(killed):
    (samples,) = killed.run.gpus.values()
    assert samples[0].host is not None
    assert max(one.host.children for one in samples if one.host is not None) >= 2


def test_a_script_that_knows_nothing_of_us_is_explained_from_inside(tmp_path):
    message = "CUDA out of memory. Tried to allocate 4.00 GiB. GPU 0 has a total capacity of 8.00 GiB"
    script = tmp_path / "plain.py"
    script.write_text(f"import torch\nraise torch.OutOfMemoryError({message!r})\n")
    words = [sys.executable, "-m", "oomph", "record", "-q", "--no-explain", "--every", "0"]
    for options, said in (((), True), (("--no-auto",), False)):
        run = tmp_path / f"run{said}"
        done = subprocess.run(
            [*words, "--run-dir", str(run), *options, "--", sys.executable, str(script)],
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode == 1
        assert f"OutOfMemoryError: {message}" in done.stderr
        assert ("\noomph: " in done.stderr) is said
