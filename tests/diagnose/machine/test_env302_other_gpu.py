"""What Google's machine types have: a2-highgpu A100 40 GB, a2-ultragpu A100 80 GB, a3 H100 (Google's page of GPUs)."""

from __future__ import annotations

import pytest

from oomph.diagnose.machine.checks.env302_other_gpu import OtherGpu
from tests.diagnose.machine.built import ERROR, cards, clear, environment, not_here, problem, told, untold


def test_an_a2_ultra_is_no_h100() -> None:
    made = environment(machine_type=told("a2-ultragpu-1g"), expected_gpus=(told("nvidia-h100-80gb"),))
    found = problem(OtherGpu, made)
    assert found.severity is ERROR
    assert "a2-ultragpu-1g has" in found.says
    assert "A100" in found.says
    assert "nvidia-h100-80gb" in found.says


def test_the_card_against_what_a_label_wants() -> None:
    made = environment(cards=cards("NVIDIA A100-SXM4-40GB"), expected_gpus=(told("nvidia-a100-80gb"),))
    assert problem(OtherGpu, made).numbers == {"memory_gb": 40, "other_memory_gb": 80}


def test_the_card_against_the_machine_type() -> None:
    made = environment(machine_type=told("a2-highgpu-1g"), cards=cards("Tesla T4"))
    assert "T4" in problem(OtherGpu, made).says


@pytest.mark.parametrize(
    ("machine", "label"),
    [
        ("a2-ultragpu-8g", "nvidia-a100-80gb"),
        ("a2-highgpu-8g", "nvidia-tesla-a100"),
        ("a3-highgpu-8g", "nvidia-h100-80gb"),
        ("a3-megagpu-8g", "nvidia-h100-mega-80gb"),
        ("p4d.24xlarge", "NVIDIA-A100-SXM4-40GB"),
        ("g5.xlarge", "NVIDIA-A10G"),
        ("p4d.24xlarge", "A100_NVLINK"),
        ("p4d.24xlarge", "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb"),
        ("Standard_NV6ads_A10_v5", "NVIDIA A10-4Q"),
    ],
)
def test_labels_that_fit(machine: str, label: str) -> None:
    clear(OtherGpu, environment(machine_type=told(machine), expected_gpus=(told(label),)))


def test_a_card_that_fits_its_machine() -> None:
    made = environment(machine_type=told("a2-ultragpu-1g"), cards=cards("NVIDIA A100-SXM4-80GB"))
    assert "A100" in clear(OtherGpu, made)


def test_nothing_to_compare() -> None:
    assert not_here(OtherGpu, environment(cards=cards("Tesla T4")))
    assert "one source" in untold(OtherGpu, environment(machine_type=told("a2-highgpu-1g")))
    made = environment(cards=cards("Tesla T4"), expected_gpus=(told("our-gold-partition"),))
    assert "our-gold-partition" in untold(OtherGpu, made)
