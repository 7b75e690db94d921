"""The rows on NCCL_ALGO, NCCL_NSOCKS_PERTHREAD and NCCL_BUFFSIZE of the list of repeated advice."""

from __future__ import annotations

from oomph.diagnose.machine.checks.env407_nccl_frees_no_memory import NcclFreesNoMemory
from tests.diagnose.machine.built import NOTE, clear, environment, not_here, problem, variables

ALLOCATOR = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}


def test_beside_allocator_settings() -> None:
    made = variables(**ALLOCATOR, NCCL_ALGO="Tree", NCCL_NSOCKS_PERTHREAD="1")
    found = problem(NcclFreesNoMemory, environment(variables=made))
    assert found.severity is NOTE
    assert found.paste == "unset NCCL_ALGO NCCL_NSOCKS_PERTHREAD"


def test_each_alone_is_somebodys_tuning() -> None:
    assert not_here(NcclFreesNoMemory, environment(variables=variables(NCCL_ALGO="Ring")))
    assert not_here(NcclFreesNoMemory, environment(variables=variables(**ALLOCATOR)))
    assert not_here(NcclFreesNoMemory, environment(variables=variables(**ALLOCATOR, NCCL_DEBUG="INFO")))


def test_a_plugins_profile() -> None:
    made = variables(**ALLOCATOR, NCCL_PROTO="Simple", NCCL_FASTRAK_IFNAME="enp6s0")
    assert "FasTrak" in clear(NcclFreesNoMemory, environment(variables=made))
