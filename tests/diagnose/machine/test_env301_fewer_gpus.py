"""Numbers of GPUs of machine types: Google's and AWS's pages (facts of hardware/machines.json)."""

from __future__ import annotations

from oomph.diagnose.machine.checks.env301_fewer_gpus import FewerGpus
from tests.diagnose.machine.built import (
    ERROR,
    cards,
    clear,
    environment,
    launch,
    not_here,
    problem,
    told,
    untold,
    variables,
)

A100 = "NVIDIA A100-SXM4-40GB"


def test_seven_of_eight() -> None:
    found = problem(FewerGpus, environment(machine_type=told("a2-highgpu-8g"), cards=cards(*[A100] * 7)))
    assert found.severity is ERROR
    assert found.numbers == {"gpus": 7, "gpus_of_the_type": 8}
    assert "8" in found.says
    assert "7" in found.says


def test_all_are_there() -> None:
    made = environment(machine_type=told("a2-highgpu-8g"), cards=cards(*[A100] * 8))
    assert clear(FewerGpus, made) == "8 GPUs of 8 of a2-highgpu-8g"


def test_the_largest_a2_has_sixteen() -> None:
    made = environment(machine_type=told("a2-megagpu-16g"), cards=cards(*[A100] * 15))
    assert problem(FewerGpus, made).numbers["gpus_of_the_type"] == 16


def test_no_cards_at_all_though_the_list_was_read() -> None:
    made = environment("cards", machine_type=told("a2-highgpu-1g"))
    assert problem(FewerGpus, made).numbers == {"gpus": 0, "gpus_of_the_type": 1}


def test_fewer_on_purpose() -> None:
    type_ = told("p4d.24xlarge")
    four = cards(*[A100] * 4)
    assert "given 4" in clear(
        FewerGpus, environment(machine_type=type_, cards=four, launches=(launch("sbatch", gpus=4),))
    )
    assert "container" in clear(
        FewerGpus, environment(machine_type=type_, cards=four, container=told("docker"))
    )
    visible = variables(CUDA_VISIBLE_DEVICES="0,1,2,3")
    assert "CUDA_VISIBLE_DEVICES" in clear(
        FewerGpus, environment(machine_type=type_, cards=four, variables=visible)
    )


def test_a_slurm_job_may_have_asked_for_fewer() -> None:
    made = environment(
        machine_type=told("p4d.24xlarge"), cards=cards(A100), variables=variables(SLURM_JOB_ID="17")
    )
    assert "Slurm" in untold(FewerGpus, made)


def test_what_is_missing_is_said() -> None:
    assert not_here(FewerGpus, environment(cards=cards(A100)))
    assert "nvidia-smi -L" in untold(FewerGpus, environment(machine_type=told("a2-highgpu-8g")))
    assert "not in the table" in untold(FewerGpus, environment(machine_type=told("z9-quantum-3q")))
