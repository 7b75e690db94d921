"""Names: ProcessGroupNCCL.hpp of PyTorch 2.13; truths: getCvarBool and getCvarInt in Utils.hpp."""

from __future__ import annotations

import pytest

from oomph.diagnose.machine.checks.env422_torch_nccl_variable import TorchNcclVariable
from tests.diagnose.machine.built import (
    ERROR,
    NOTE,
    WARNING,
    clear,
    environment,
    not_here,
    problem,
    torch,
    untold,
    variables,
)

NEW, OLD = torch("2.6.0"), torch("2.1.2")


def test_an_old_name() -> None:
    old_name = variables(NCCL_ASYNC_ERROR_HANDLING="1")
    found = problem(TorchNcclVariable, environment(variables=old_name, torch=NEW))
    assert found.severity is WARNING
    assert "TORCH_NCCL_ASYNC_ERROR_HANDLING" in found.fix
    assert problem(TorchNcclVariable, environment(variables=old_name)).severity is NOTE
    clear(TorchNcclVariable, environment(variables=old_name, torch=OLD))


def test_a_new_name_in_an_old_release() -> None:
    made = environment(variables=variables(TORCH_NCCL_ASYNC_ERROR_HANDLING="1"), torch=OLD)
    assert problem(TorchNcclVariable, made).paste == "export NCCL_ASYNC_ERROR_HANDLING=1"


def test_a_mistyped_name() -> None:
    made = environment(variables=variables(TORCH_NCCL_ASYNC_ERROR_HANDELING="1"), torch=NEW)
    assert "TORCH_NCCL_ASYNC_ERROR_HANDLING" in problem(TorchNcclVariable, made).says


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TORCH_NCCL_ENABLE_MONITORING", "off"),
        ("TORCH_NCCL_ENABLE_MONITORING", "2"),
        ("TORCH_NCCL_BLOCKING_WAIT", ""),
        ("TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC", "ten"),
        ("TORCH_NCCL_ASYNC_ERROR_HANDLING", "true"),
    ],
)
def test_values_that_raise(name: str, value: str) -> None:
    found = problem(TorchNcclVariable, environment(variables=variables(**{name: value}), torch=NEW))
    assert found.severity is ERROR
    assert f"Invalid value for environment variable: {name}" in found.does


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TORCH_NCCL_ENABLE_MONITORING", "0"),
        ("TORCH_NCCL_AVOID_RECORD_STREAMS", "Yes"),
        ("TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC", "600"),
        ("TORCH_NCCL_ASYNC_ERROR_HANDLING", "3"),
        ("TORCH_NCCL_TRACE_BUFFER_SIZE", "2000"),
        ("TORCH_NCCL_BLOCKING_WAIT", "0"),
    ],
)
def test_values_that_are_fine(name: str, value: str) -> None:
    clear(TorchNcclVariable, environment(variables=variables(**{name: value}), torch=NEW))


def test_values_that_cost() -> None:
    problem(TorchNcclVariable, environment(variables=variables(TORCH_NCCL_BLOCKING_WAIT="1"), torch=NEW))
    off = environment(variables=variables(TORCH_NCCL_ASYNC_ERROR_HANDLING="0"), torch=NEW)
    assert "wait for ever" in problem(TorchNcclVariable, off).does


def test_unknown_and_none() -> None:
    untold(TorchNcclVariable, environment(variables=variables(TORCH_NCCL_DESYNC_DEBUG=None)))
    assert not_here(TorchNcclVariable, environment(variables=variables(NCCL_DEBUG="INFO")))
