"""Defaults: NCCL's init.cc and device.h (4 MiB; 524,288; 4,915,200). Arithmetic beside each number."""

from __future__ import annotations

import pytest

from oomph.diagnose.machine.checks.env405_nccl_buffsize import NcclBuffsize
from oomph.units import MIB
from tests.diagnose.machine.built import (
    ERROR,
    WARNING,
    clear,
    environment,
    not_here,
    problem,
    untold,
    variables,
)


@pytest.mark.parametrize(("value", "read"), [("4MB", 4), ("4M", 4), ("0", 0), ("large", 0)])
def test_sizes_that_are_read_as_something_else(value: str, read: int) -> None:
    found = problem(NcclBuffsize, environment(variables=variables(NCCL_BUFFSIZE=value)))
    assert found.severity is ERROR
    assert f"read as {read} bytes" in found.says


def test_a_tiny_buffer() -> None:
    found = problem(NcclBuffsize, environment(variables=variables(NCCL_BUFFSIZE="524288")))
    assert found.severity is WARNING
    # (4 MiB - 0.5 MiB) x 32 channels = 112 MiB; 512 KiB / 8 steps = 64 KiB
    assert found.numbers["saved_bytes"] == 112 * MIB
    assert "112.00 MiB" in found.does
    assert "64.00 KiB" in found.does


def test_both_sides_of_tiny_and_huge() -> None:
    problem(NcclBuffsize, environment(variables=variables(NCCL_BUFFSIZE=str(MIB))))
    clear(NcclBuffsize, environment(variables=variables(NCCL_BUFFSIZE=str(MIB + 1))))
    clear(NcclBuffsize, environment(variables=variables(NCCL_BUFFSIZE=str(32 * MIB))))
    found = problem(NcclBuffsize, environment(variables=variables(NCCL_BUFFSIZE=str(64 * MIB))))
    assert found.numbers["more_bytes"] == 60 * 32 * MIB


@pytest.mark.parametrize("value", ["4194304", "8388608", "-2", "0x400000"])
def test_usual_sizes(value: str) -> None:
    clear(NcclBuffsize, environment(variables=variables(NCCL_BUFFSIZE=value)))


def test_lines_of_ll128() -> None:
    """4,915,200 = 120 x 640 threads x 8 steps x 8 bytes; issue NVIDIA/nccl#1739 hung with 131,072."""
    found = problem(NcclBuffsize, environment(variables=variables(NCCL_LL128_BUFFSIZE="131072")))
    assert "120" in found.says
    clear(NcclBuffsize, environment(variables=variables(NCCL_LL128_BUFFSIZE="4915200")))
    problem(NcclBuffsize, environment(variables=variables(NCCL_LL_BUFFSIZE="100000")))
    clear(NcclBuffsize, environment(variables=variables(NCCL_LL_BUFFSIZE="524288")))


def test_unknown_and_none() -> None:
    untold(NcclBuffsize, environment(variables=variables(NCCL_BUFFSIZE=None)))
    assert not_here(NcclBuffsize, environment(variables=variables(NCCL_DEBUG="INFO")))
