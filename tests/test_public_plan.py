"""`oomph.plan()`: what it makes of its arguments."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

import oomph
from oomph.errors import InputError, UsageError
from oomph.job.model import Batch, Hardware, Job, Parallel, Precision
from tests.report.plan.plans import JOB, plan


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch) -> list[Job]:
    """The jobs that were predicted, by a stand-in."""
    seen: list[Job] = []

    def predict(job, *, replay=True, unsupported=()):
        seen.append(job)
        return plan(assumptions=("of the prediction",), notes=())

    monkeypatch.setattr("oomph.api.plan_job", predict)
    return seen


def test_a_name_a_gpu_and_settings(jobs) -> None:
    answer = oomph.plan(
        "meta-llama/Llama-3.1-8B",
        gpu="a100-80gb x8",
        settings={"parallel.strategy": "fsdp2_full", "batch.micro": 2, "batch.sequence": "8192"},
    )
    assert isinstance(answer, oomph.Plan)
    job = jobs[0]
    assert job.model.family == "llama"
    assert job.parallel == Parallel(strategy="fsdp2_full", data=8)
    assert job.batch == Batch(micro=2, sequence=8192)
    assert (job.hardware.gpu, job.hardware.gpus) == ("a100-80gb", 8)
    assert job.precision == Precision(compute="bf16", autocast=True)
    assert answer.assumptions[-1] == "of the prediction"
    assert any("Precision" in sentence for sentence in answer.assumptions)


def test_a_job_stands_as_it_is(jobs) -> None:
    oomph.plan(JOB)
    assert jobs[0] == JOB
    oomph.plan(JOB, gpus=16)
    assert (jobs[1].hardware.gpus, jobs[1].parallel.data) == (16, 16)
    oomph.plan(JOB, gpu="h100")
    assert jobs[2].hardware == Hardware("h100", gpus=8, per_node=None, host_bytes=None)


def test_a_folder_and_a_job_file(jobs, tmp_path) -> None:
    path = tmp_path / "job.toml"
    path.write_text('model = "gpt2"\n[batch]\nmicro = 3\n')
    oomph.plan(path)
    oomph.plan([str(path)], gpu="t4")
    assert [job.batch.micro for job in jobs] == [3, 3]
    assert jobs[1].hardware.gpu == "t4"


def test_what_makes_no_sense_raises(jobs) -> None:
    for arguments, kind in (
        (("nobody-knows-this",), UsageError),
        ((Path("nothing.toml"),), InputError),
    ):
        with pytest.raises(kind):
            oomph.plan(*arguments)
    with pytest.raises(UsageError, match="say which"):
        oomph.plan("gpt2", gpu="a100")
    with pytest.raises(UsageError, match="Did you mean micro"):
        oomph.plan("gpt2", settings={"batch.mikro": 1})


def test_an_impossible_job_is_refused_before_it_is_predicted() -> None:
    with pytest.raises(UsageError):
        oomph.plan("gpt2", settings={"batch.micro": 0})


def test_what_a_file_asks_for_and_no_job_says_is_unsupported() -> None:
    from oomph.api import plan_job

    answer = plan_job(oomph.Job(model=JOB.model), unsupported=("unsupported: ring attention",))
    assert answer.ranks == ()
    assert answer.unsupported == ("unsupported: ring attention",)


def test_it_is_typed() -> None:
    parameters = inspect.signature(oomph.plan).parameters
    assert next(iter(parameters)) == "job"
    assert all(parameter.annotation is not inspect.Parameter.empty for parameter in parameters.values())
