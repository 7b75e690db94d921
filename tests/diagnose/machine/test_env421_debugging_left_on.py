"""PYTORCH_NO_CUDA_MEMORY_CACHING: CUDACachingAllocator.cpp compares getenv with nullptr only."""

from __future__ import annotations

import pytest

from oomph.diagnose.machine.checks.env421_debugging_left_on import DebuggingLeftOn
from tests.diagnose.machine.built import (
    NOTE,
    WARNING,
    clear,
    environment,
    not_here,
    problem,
    untold,
    variables,
)


@pytest.mark.parametrize("value", ["1", "0", "", None])
def test_caching_is_off_whatever_the_value(value: str | None) -> None:
    made = environment(variables=variables(PYTORCH_NO_CUDA_MEMORY_CACHING=value))
    found = problem(DebuggingLeftOn, made)
    assert found.severity is WARNING
    assert "cudaMalloc" in found.does


def test_launch_blocking() -> None:
    problem(DebuggingLeftOn, environment(variables=variables(CUDA_LAUNCH_BLOCKING="1")))
    clear(DebuggingLeftOn, environment(variables=variables(CUDA_LAUNCH_BLOCKING="0")))
    untold(DebuggingLeftOn, environment(variables=variables(CUDA_LAUNCH_BLOCKING=None)))


def test_others() -> None:
    assert problem(DebuggingLeftOn, environment(variables=variables(TORCH_USE_CUDA_DSA="1"))).severity is NOTE
    problem(DebuggingLeftOn, environment(variables=variables(TORCH_DISTRIBUTED_DEBUG="DETAIL")))
    clear(DebuggingLeftOn, environment(variables=variables(TORCH_DISTRIBUTED_DEBUG="INFO")))
    clear(DebuggingLeftOn, environment(variables=variables(CUDA_MODULE_LOADING="LAZY")))
    clear(DebuggingLeftOn, environment(variables=variables(NCCL_DEBUG="INFO")))
    assert not_here(DebuggingLeftOn, environment(variables=variables(HOME="/root")))
