"""What to collect is a command to paste."""

from __future__ import annotations

import ast

import pytest

from oomph.remedy.actions import all_actions
from tests.remedy.cases import case_of, finding_of

COLLECT = [code for code in all_actions() if code.startswith("collect-")]


@pytest.mark.parametrize("code", COLLECT)
def test_each_has_something_to_paste(code: str) -> None:
    step = all_actions()[code].step(case_of(), finding_of("activations"))
    assert step.paste.strip()


def test_the_snapshot_is_python_that_parses() -> None:
    paste = all_actions()["collect-snapshot"].step(case_of(), finding_of("activations")).paste
    ast.parse(paste)
    assert not all_actions()["collect-snapshot"].applies(case_of(vendor="mps"))
    assert not all_actions()["collect-snapshot"].applies(case_of("RuntimeError: CUDA error: out of memory"))


@pytest.mark.parametrize(("vendor", "tool"), [("hip", "rocm-smi"), ("xpu", "xpu-smi"), ("mps", "vm_stat")])
def test_every_vendor_has_its_own_tool(vendor: str, tool: str) -> None:
    assert tool in all_actions()["collect-smi"].step(case_of(vendor=vendor), finding_of("activations")).paste


def test_missing_parts_are_named() -> None:
    text = all_actions()["collect-context"].step(case_of(), finding_of("activations")).text
    assert "the traceback of the failure" in text
