"""Real ranks under a real torchrun: DDP with one rank that runs out of memory, FSDP2, an elastic restart."""

from __future__ import annotations

import json

import pytest

import oomph
from oomph.evidence.run.data import Outcome
from oomph.evidence.run.model import PhaseRecord, StepRecord
from oomph.evidence.run.read import read_run
from oomph.phases import Phase
from tests.recording.torchrun import the_run, torchrun

MIB = 1 << 20


@pytest.fixture(scope="module")
def ddp(tmp_path_factory):
    """Rank 2 of four fails in the forward of step 2, and takes four seconds to die."""
    cwd = tmp_path_factory.mktemp("ddp")
    return torchrun(cwd, 4, "ddp_oom.py", "4"), the_run(cwd)


def test_the_job_ends_as_it_would_have(ddp):
    done, _path = ddp
    assert done.returncode == 1
    assert "torch.OutOfMemoryError: CUDA out of memory" in done.stderr
    said = [line for line in done.stderr.splitlines() if line.startswith("oomph:")]
    assert len(said) == 1
    assert "rank 2 ran out of memory in forward of step 2" in said[0]


def test_one_run_of_four_ranks_that_agreed_without_talking(ddp):
    _done, path = ddp
    data = read_run(path)
    assert sorted(data.ranks) == [0, 1, 2, 3]
    assert data.world_size == 4
    assert data.missing == ()
    assert sorted(data.fingerprints) == [0, 1, 2, 3]
    assert path.name.split("-")[2] == "ddp"


def test_the_phases_of_every_rank_are_right(ddp):
    _done, path = ddp
    step = ["forward", "backward", "optimizer", "step"]
    for rank, data in read_run(path).ranks.items():
        # A victim's last backward ends by gloo's exception, if the rank lives to see it.
        phases = [one for one in data.phases if rank == 2 or not one.raised]
        every: list[PhaseRecord | StepRecord] = [*phases, *data.steps]
        order = [
            one.phase.value if isinstance(one, PhaseRecord) else "step"
            for one in sorted(every, key=lambda one: one.clock)
        ]
        assert order == ["load", *step, *step, "forward"]
        assert data.steps_completed == 2
        batch = 20_000 if rank == 2 else 4 + rank
        assert phases[-1].batch == {"features": (batch, 64)}
        # Linear layers of 64 x 256 + 256 and 256 x 8 + 8 parameters, and AdamW's two states of each.
        parameters = 4 * (64 * 256 + 256 + 256 * 8 + 8)
        load = data.summaries[Phase.LOAD].peak_allocated_bytes
        assert parameters <= load < 2 * parameters
        optimizer = data.summaries[Phase.OPTIMIZER]
        assert optimizer.first is not None
        assert optimizer.first.allocated_bytes >= load + 2 * parameters


def test_the_rank_that_failed_has_everything(ddp):
    _done, path = ddp
    rank = read_run(path).ranks[2]
    assert rank.outcome is Outcome.OOM
    oom = rank.ooms[-1]
    assert (oom.phase, oom.step, oom.batch) == (Phase.FORWARD, 2, {"features": (20_000, 64)})
    assert oom.message.startswith("CUDA out of memory. Tried to allocate")
    content = json.loads((path / "oom" / "rank-00002" / "oom.json").read_text())
    ledger = content["ledger"]
    assert ledger["capacity_bytes"] == 24 * MIB
    assert ledger["reserved_bytes"] == ledger["allocated_bytes"] + ledger["cached_bytes"]
    assert ledger["capacity_bytes"] == ledger["free_bytes"] + ledger["reserved_bytes"]
    # The activations of 20,000 rows of 256 numbers do not fit.
    assert content["request_bytes"] >= 20_000 * 256 * 4
    assert sorted(file.name for file in (path / "oom").iterdir()) == ["rank-00002"]
    report = oomph.snapshot(path / "oom" / "rank-00002" / "snapshot.pickle")
    assert report.devices[report.shown].failure is not None
    traceback = (path / "oom" / "rank-00002" / "traceback.txt").read_text()
    assert "ddp_oom.py" in traceback


def test_the_others_note_whom_they_wait_for(ddp):
    _done, path = ddp
    data = read_run(path)
    for rank in (0, 1, 3):
        notes = [note for note in data.ranks[rank].notes if note.code == "watchdog.failed"]
        assert [(note.about, note.phase, note.step) for note in notes] == [(2, Phase.BACKWARD, 2)]
        # Killed by torchrun, or told by gloo that the connection was closed.
        assert data.ranks[rank].outcome in (Outcome.KILLED, Outcome.UNKNOWN, Outcome.EXCEPTION)
        assert data.ranks[rank].ooms == ()
    assert data.first_failure is not None
    assert data.first_failure.ranks == (2,)


def test_explain_names_the_rank_its_phase_and_its_victims(ddp):
    _done, path = ddp
    diagnosis = oomph.explain([path])
    assert diagnosis.incident is not None
    assert diagnosis.incident.rank == 2
    assert diagnosis.incident.phase.phase is Phase.FORWARD
    assert diagnosis.incident.ledger.capacity_bytes == 24 * MIB
    assert diagnosis.ranks.first == 2


@pytest.fixture(scope="module")
def fsdp2(tmp_path_factory):
    cwd = tmp_path_factory.mktemp("fsdp2")
    return torchrun(cwd, 8, "fsdp2.py", str(cwd), OOMPH_CPU_CAPACITY="64MiB"), the_run(cwd)


def test_eight_ranks_of_fsdp2(fsdp2):
    done, path = fsdp2
    assert done.returncode == 0, done.stderr
    data = read_run(path)
    assert sorted(data.ranks) == list(range(8))
    for rank in data.ranks.values():
        assert rank.outcome is Outcome.COMPLETED
        assert rank.steps_completed == 4
        # Two micro-batches: the first by itself, the other with the end of the step.
        assert [(one.phase.value, one.step) for one in rank.phases] == [
            ("load", -1),
            *[(phase, step) for step in range(4) for phase in TWICE],
            ("eval", 4),
            ("save", 4),
        ]
        assert [one.step for one in rank.steps] == [0, 1, 2, 3]
        assert all(one.batch == {"input": (4, 128)} for one in rank.steps)
        assert rank.phases[-2].batch == {"input": (2, 128)}
        # Sharded: an eighth of 2 x (128 x 128 + 128) parameters, before the first forward gathers any of them.
        shard = 4 * 2 * (128 * 128 + 128) // 8
        assert shard <= rank.phases[0].counters.allocated_bytes < 8 * shard
        optimizer = rank.summaries[Phase.OPTIMIZER]
        assert optimizer.first is not None
        # Two states and the gradients, each as large as the shard, besides it.
        assert optimizer.first.allocated_bytes >= 4 * shard


def test_one_warning_for_all_ranks(fsdp2):
    done, path = fsdp2
    said = [line for line in done.stderr.splitlines() if line.startswith("oomph:")]
    assert len(said) == 1
    # A result of 4 x 128 numbers of four bytes, 50,000 times: 97.66 MiB, of the 64 MiB that there are.
    assert "the first evaluation is still to come: with 200000 x 128" in said[0]
    assert "PyTorch can have 64.00 MiB" in said[0]
    for rank in read_run(path).ranks.values():
        (note,) = [note for note in rank.notes if note.code == "warning.eval"]
        assert note.numbers["low_bytes"] >= 50_000 * 4 * 128 * 4
    assert len(list((path / "claims").iterdir())) == 1


TWICE = ("forward", "backward", "forward", "backward", "optimizer")


def test_an_elastic_restart_is_a_further_attempt(tmp_path):
    done = torchrun(tmp_path, 2, "restarts.py", options=["--max-restarts=1", "--monitor-interval=0.1"])
    assert done.returncode == 0, done.stderr
    data = read_run(the_run(tmp_path))
    assert sorted(data.ranks) == [0, 1]
    for rank in data.ranks.values():
        assert [header.attempt for header in rank.headers] == [0, 1]
        assert rank.outcome is Outcome.COMPLETED
    assert data.ranks[1].attempts[0] is Outcome.EXCEPTION
