"""Pins: metadata of the wheels (facts/driver_cuda.json): 2.3.1 has 2.20.5, 2.2.2 has 2.19.3."""

from __future__ import annotations

from typing import Any

from oomph.diagnose.machine.checks.env107_nccl import Nccl
from oomph.evidence.environment.model import Environment
from tests.diagnose.machine.built import (
    WARNING,
    clear,
    environment,
    not_here,
    problem,
    problems,
    told,
    torch,
    variables,
)


def made(installed: str, version: str = "2.3.1", cuda: str = "12.1", **values: Any) -> Environment:
    return environment(
        torch=torch(version, cuda=cuda, **values), packages={"nvidia-nccl-cu12": (told(installed),)}
    )


def test_the_pinned_version() -> None:
    assert "2.20.5" in clear(Nccl, made("2.20.5"))


def test_another_version() -> None:
    found = problem(Nccl, made("2.19.3"))
    assert found.severity is WARNING
    assert "2.20.5" in found.says
    assert found.paste == "pip install nvidia-nccl-cu12==2.20.5"
    assert clear(Nccl, made("2.19.3", version="2.2.2"))


def test_another_copy_is_loaded() -> None:
    assert "2.18.3" in problem(Nccl, made("2.20.5", nccl="2.18.3")).says
    assert clear(Nccl, made("2.20.5", nccl="2.20.5"))
    # without packages the wheel's pin is compared
    bare = environment(torch=torch("2.3.1", cuda="12.1", nccl="2.18.3"))
    assert "2.20.5" in problem(Nccl, bare).says
    assert not_here(Nccl, environment(torch=torch("2.3.1", cuda="12.1", nccl="2.20.5")))


def test_a_build_of_another_cuda_is_not_measured_by_pypis_pins() -> None:
    assert not_here(Nccl, made("2.19.3", cuda="11.8"))
    assert not_here(Nccl, environment(torch=torch("2.3.1", cuda="11.8", nccl="2.20.5")))


def test_two_packages_share_a_folder() -> None:
    both = environment(
        torch=torch("2.11.0", cuda="13.0"),
        packages={"nvidia-nccl-cu12": (told("2.27.5"),), "nvidia-nccl-cu13": (told("2.28.9"),)},
    )
    assert "nvidia-nccl-cu12 and nvidia-nccl-cu13" in problem(Nccl, both).says


def test_preloaded() -> None:
    found = problem(Nccl, environment(variables=variables(LD_PRELOAD="/opt/nccl/lib/libnccl.so.2")))
    assert "/opt/nccl/lib/libnccl.so.2" in found.says
    # plugins for a network and allocators are no NCCL
    for other in (
        "/opt/aws-ofi-nccl/lib/libnccl-net.so",
        "libtcmalloc.so.4",
        "/usr/lib/libnccl-tuner.so",
        "",
    ):
        assert not_here(Nccl, environment(variables=variables(LD_PRELOAD=other)))


def test_named_by_vllms_variable() -> None:
    made_of = environment(variables=variables(VLLM_NCCL_SO_PATH="/root/.config/libnccl.so.2.18.1"))
    assert "2.18.1" in problem(Nccl, made_of).says


def test_a_folder_in_the_library_path() -> None:
    def path(value: str) -> Environment:
        return environment(
            variables=variables(LD_LIBRARY_PATH=value), torch=torch("2.3.1", cuda="12.1"),
        )  # fmt: skip

    assert len(problems(Nccl, path("/apps/nccl/2.18/lib:/apps/nccl/2.19/lib"))) == 1
    assert not_here(Nccl, path("/opt/aws-ofi-nccl/lib"))
    assert not_here(Nccl, path("/venv/lib/python3.10/site-packages/nvidia/nccl/lib"))
    assert not_here(Nccl, path("/usr/local/cuda/lib64"))


def test_nothing_to_look_at() -> None:
    assert not_here(Nccl, environment())
