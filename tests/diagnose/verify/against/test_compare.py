"""A plan held against a run that needed exactly what was planned, or what was planned for something else."""

from __future__ import annotations

import functools
import pickle

import msgspec
import pytest
from msgspec.structs import replace

from oomph.api import plan_job
from oomph.diagnose.verify.against.compare import against
from oomph.evidence.run.model import OomRecord
from oomph.evidence.run.read import read_run
from oomph.job.change import with_values
from oomph.job.model import Job
from oomph.job.names import model
from oomph.phases import Phase
from tests.cli.snapshots import job as snapshot_job
from tests.diagnose.verify.runs import GIB, Rank, failure, read, write

BASE = with_values(
    Job(model=model("gpt2"), framework=msgspec.convert({"name": "transformers"}, type(Job().framework))),
    {
        "batch.micro": 2,
        "batch.sequence": 256,
        "optimizer.impl": "fused",
        "batch.padding": "off",
        "hardware.gpu": "a100-40gb",
    },
)


@functools.cache
def predict(job: Job):
    return plan_job(job, replay=False)


def rank_of(job: Job, **more) -> Rank:
    """A rank that needs to the byte what is planned for this job."""
    phases = predict(job).ranks[0].phases
    training = (Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER)
    return Rank(
        loaded=phases[Phase.LOAD].allocated_bytes,
        peaks={phase: phases[phase].allocated_bytes for phase in training},
        step_bytes=lambda _: predict(job).ranks[0].end_allocated_bytes,
        batch=lambda _: {"input_ids": (job.batch.micro, job.batch.sequence or 0)},
        **more,
    )


def compared(tmp_path, planned: Job, ran: Job, **more):
    data = read(tmp_path, [rank_of(ran)], **more)
    return against(data, planned, predict(planned), predict, "a test")


def test_a_run_as_planned(tmp_path):
    found = compared(tmp_path, BASE, BASE)
    assert found.exit_code == 0
    judged = {row.phase: row.within for row in found.rows}
    assert all(judged[phase] for phase in (Phase.LOAD, Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER))
    assert all(row.difference == 0 for row in found.rows if row.recorded is not None)
    assert found.causes == ()


@pytest.mark.parametrize(
    ("values", "kind", "words"),
    [
        ({"batch.sequence": 512}, "batch", "longest batch 2 x 512 tokens"),
        ({"batch.micro": 4}, "batch", "longest batch 4 x 256 tokens"),
    ],
)
def test_a_longer_batch_explains_the_difference_to_the_byte(tmp_path, values, kind, words):
    longer = with_values(BASE, values)
    found = compared(tmp_path, BASE, longer)
    assert found.exit_code == 1
    (cause,) = found.causes
    assert cause.kind == kind
    assert words in cause.text
    backward = next(row for row in found.rows if row.phase is Phase.BACKWARD)
    assert backward.within is False
    assert cause.bytes[Phase.BACKWARD] == backward.difference
    assert backward.unexplained == 0


def test_settings_that_the_run_recorded(tmp_path):
    ran = with_values(BASE, {"checkpointing.mode": "full"})
    fingerprint = {
        "model.id": "gpt2",
        "arguments.per_device_train_batch_size": "2",
        "arguments.gradient_checkpointing": "True",
        "arguments.optim": "adamw_torch_fused",
    }
    found = compared(tmp_path, BASE, ran, fingerprint=fingerprint)
    kinds = {cause.text: cause for cause in found.causes}
    setting = next(cause for text, cause in kinds.items() if text.startswith("activation checkpointing"))
    assert "mode full (planned: none)" in setting.text
    backward = next(row for row in found.rows if row.phase is Phase.BACKWARD)
    assert setting.bytes[Phase.BACKWARD] == backward.difference < 0


def test_another_number_of_ranks_and_another_version(tmp_path):
    planned = replace(BASE, framework=replace(BASE.framework, versions=(("torch", "2.4"),)))
    data = read(tmp_path, [rank_of(BASE), rank_of(BASE, rank=1)], fingerprint={"versions.torch": "2.9.0"})
    found = against(data, planned, predict(planned), predict, "a test")
    assert [cause.kind for cause in found.causes] == ["ranks", "version", "together"]
    assert found.causes[0].text == "2 ranks (planned: 1)"
    assert found.causes[1].text == "torch 2.9.0 (planned: 2.4)"
    # DDP's buckets: a copy of the gradients, 4 bytes for each parameter.
    assert found.causes[0].bytes[Phase.BACKWARD] > 0
    assert all(cause.bytes or cause.unsupported for cause in found.causes)


def test_a_version_that_is_only_said_more_exactly_is_no_other_one(tmp_path):
    planned = replace(BASE, framework=replace(BASE.framework, versions=(("torch", "2.9"),)))
    found = compared(tmp_path, planned, planned, fingerprint={"versions.torch": "2.9.0+cu128"})
    assert found.causes == ()


def test_what_nothing_explains_is_said_so(tmp_path):
    rank = rank_of(BASE)
    rank.peaks[Phase.FORWARD] += 10 * GIB
    data = read(tmp_path, [rank])
    found = against(data, BASE, predict(BASE), predict, "a test")
    forward = next(row for row in found.rows if row.phase is Phase.FORWARD)
    assert (forward.within, forward.difference, forward.expected) == (False, 10 * GIB, None)


def test_a_run_that_died_below_its_prediction_is_open(tmp_path):
    rank = rank_of(BASE, steps=1, outcome="killed")
    rank.peaks[Phase.BACKWARD] //= 2
    found = against(read(tmp_path, [rank]), BASE, predict(BASE), predict, "a test")
    backward = next(row for row in found.rows if row.phase is Phase.BACKWARD)
    assert backward.within is None
    assert "ended without a last record" in backward.open


def test_what_is_not_predicted_and_what_is_not_recorded_are_rows(tmp_path):
    found = against(read(tmp_path, [rank_of(BASE, evaluation=GIB)]), BASE, predict(BASE), predict, "a test")
    rows = {row.phase: row for row in found.rows}
    assert (rows[Phase.EVAL].predicted, rows[Phase.EVAL].recorded) == (None, GIB)
    assert rows[Phase.EVAL].open == "it is not predicted"
    assert rows[Phase.SAVE].open == "it was not recorded"


def test_beside_the_tensors(tmp_path):
    """The runs of these tests cache 2 GiB, and 1 GiB of the card is neither free nor reserved."""
    found = compared(tmp_path, BASE, BASE)
    assert (found.beside.cached, found.beside.outside, found.beside.outside_with_others) == (
        2 * GIB,
        None,
        GIB,
    )


def test_a_job_that_cannot_be_predicted(tmp_path):
    plan = plan_job(BASE, replay=False, unsupported=("something new",))
    found = against(read(tmp_path, [rank_of(BASE)]), BASE, plan, predict, "a test")
    assert (found.exit_code, found.rows) == (2, ())


def test_categories_from_the_snapshot_of_a_failed_request(tmp_path):
    oom: OomRecord = failure(Phase.BACKWARD, 2, 30 * GIB)
    oom = msgspec.structs.replace(oom, files=("snapshot.pickle",))
    folder = write(tmp_path / "run", [rank_of(BASE, steps=2, outcome="oom", oom=oom)])
    (folder / "oom" / "rank-00000").mkdir(parents=True)
    (folder / "oom" / "rank-00000" / "snapshot.pickle").write_bytes(pickle.dumps(snapshot_job()))
    found = against(read_run(folder), BASE, predict(BASE), predict, "a test")
    assert found.categories is not None, found.why_no_categories
    assert (found.categories.rank, found.categories.phase) == (0, Phase.BACKWARD)
    rows = {row.category: row for row in found.categories.rows}
    terms = predict(BASE).ranks[0].phases[Phase.BACKWARD].terms
    expected = sum(term.bytes for term in terms if term.category.value == "parameters")
    assert rows["parameters"].predicted == expected
    assert sum(row.recorded for row in found.categories.rows) > 0


def test_without_a_snapshot_it_says_why(tmp_path):
    assert "no request failed" in compared(tmp_path, BASE, BASE).why_no_categories
    oom = failure(Phase.BACKWARD, 2, 30 * GIB)
    data = read(tmp_path / "b", [rank_of(BASE, steps=2, outcome="oom", oom=oom)])
    found = against(data, BASE, predict(BASE), predict, "a test")
    assert "left no snapshot" in found.why_no_categories
