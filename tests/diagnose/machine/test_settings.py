"""Which variables are in effect, and what several checks ask of a machine."""

from __future__ import annotations

import subprocess

import pytest

from oomph.diagnose.machine.gpu_models import agree, has_p2p, meant
from oomph.diagnose.machine.settings import (
    counted,
    export,
    gpus,
    has_rdma,
    in_effect,
    is_on,
    nccl_version,
    nodes,
    torch_version,
    value_of,
)
from oomph.evidence.environment.model import TorchBuild, Variable
from oomph.evidence.model import Quote
from tests.diagnose.machine.built import QUOTE, cards, environment, launch, told, torch, variables


def test_a_processs_own_value_counts_before_an_images() -> None:
    made = environment(variables=(*variables("image", A="1", B="2"), *variables("process", A="3")))
    assert [(one.name, one.value) for one in in_effect(made)] == [("B", "2"), ("A", "3")]
    assert value_of(made, "A") == "3"
    assert value_of(made, "C") is None


def test_ranks_with_different_values_are_all_kept() -> None:
    made = environment(variables=(*variables(A="1"), *variables(A="2"), *variables(A="1")))
    assert [one.value for one in in_effect(made, "A")] == ["1", "2"]


def test_a_variable_of_another_command() -> None:
    start = launch("torchrun", processes=8, line=2)
    before = Variable("A", "1", "script", Quote("job.sh", 1, "A=1 pytest"), command=True)
    with_it = Variable("B", "1", "script", Quote("job.sh", 2, "B=1 torchrun"), command=True)
    made = environment(variables=(before, with_it), launches=(start,))
    assert [one.name for one in in_effect(made)] == ["B"]
    assert [one.name for one in in_effect(environment(variables=(before,)))] == ["A"]


def test_nodes() -> None:
    assert nodes(environment(launches=(launch("sbatch", nodes=4), launch("torchrun")))) == 4
    assert nodes(environment(variables=variables(SLURM_JOB_NUM_NODES="2"))) == 2
    assert nodes(environment(variables=variables(SLURM_JOB_NUM_NODES="two"))) is None
    assert nodes(environment()) is None


def test_gpus() -> None:
    four = cards(*["Tesla T4"] * 4)
    assert gpus(environment(launches=(launch("sbatch", gpus=2),), cards=four)) == 2
    assert gpus(environment(variables=variables(CUDA_VISIBLE_DEVICES="0, 1,2"), cards=four)) == 3
    assert gpus(environment(cards=four)) == 4
    assert gpus(environment("cards")) == 0
    assert gpus(environment(machine_type=told("p4d.24xlarge"))) == 8
    assert gpus(environment()) is None


@pytest.mark.parametrize(
    ("machine", "expected"),
    [("a2-megagpu-16g", False), ("g2-standard-4", False), ("a3-ultragpu-8g", None), ("p4d.24xlarge", None)],
)
def test_rdma_by_machine_type(machine: str, expected: bool | None) -> None:
    assert has_rdma(environment(machine_type=told(machine)))[0] is expected


def test_versions() -> None:
    packages = {"nvidia-nccl-cu12": (told("2.20.5"),)}
    found = nccl_version(environment(packages=packages, torch=torch("2.4.1", nccl="2.19.3")))
    assert found is not None
    assert found[0] == (2, 20, 5)
    wanted = TorchBuild(QUOTE, version="2.1.0", wanted=True)
    assert torch_version(environment(torch=(wanted, *torch("2.4.1")))) == (2, 4)
    assert torch_version(environment(torch=(wanted,))) == (2, 1)
    assert torch_version(environment(torch=torch("nightly"))) is None


@pytest.mark.parametrize(
    ("text", "on"), [("1", True), ("TRUE", True), ("0", False), ("", False), (None, False)]
)
def test_switches(text: str | None, on: bool) -> None:
    assert is_on(text) is on


@pytest.mark.parametrize(
    "value", ["ring;allreduce:tree", "^lo,docker0", "[256:1,>:8]", "a b", "$HOME", "it's", ""]
)
def test_a_line_that_is_pasted_sets_what_was_meant(value: str) -> None:
    line = export("OOMPH_TEST", value)
    done = subprocess.run(
        ["sh", "-c", f'{line}\nprintf %s "$OOMPH_TEST"'],
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    assert done.stdout == value


def test_counts() -> None:
    assert counted(1, "name") == "1 name"
    assert counted(0, "name") == "0 names"


def test_names_of_gpus() -> None:
    assert agree(meant("NVIDIA A100-SXM4-80GB"), meant("nvidia-a100-80gb"))
    assert not agree(meant("NVIDIA A100-SXM4-80GB"), meant("nvidia-h100-80gb"))
    assert not agree(meant("NVIDIA A100-SXM4-40GB"), meant("A100_PCIE_80GB"))
    assert agree(meant("GRID T4-16Q"), meant("Tesla T4"))
    assert meant("our-gold-partition") == ()
    assert meant("") == ()
    assert has_p2p("NVIDIA GeForce RTX 4090") is False
    assert has_p2p("NVIDIA GeForce RTX 3090") is None
    assert has_p2p("NVIDIA RTX 6000 Ada Generation") is True
    assert has_p2p("unheard of") is None
