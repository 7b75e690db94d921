"""Scripted functions run as Python code, also where they call what a trace has replaced."""

from __future__ import annotations

from tests.tracing.programs import traced

PROGRAM = """
import sys, types
source = '''
import torch

@torch.jit.script
def scaled(x: torch.Tensor):
    return torch.relu(x) * torch.tensor(2.0)
'''
import importlib.util, tempfile, pathlib
path = pathlib.Path(tempfile.mkdtemp()) / "scripted_here.py"
path.write_text(source)
spec = importlib.util.spec_from_file_location("scripted_here", path)
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
print(module.scaled(torch.ones(256, 4, device="cuda")).device)
"""


def test_a_scripted_function_runs_and_the_trace_says_how():
    seen = traced(PROGRAM)
    assert seen.printed.split() == ["cuda:0"]
    assert any("torch.jit.script" in text for text in seen.assumptions)
    # The argument, what relu made of it and the product: 256 * 4 * 4 bytes each.
    assert [size for kind, size in seen.events if kind == "alloc" and size == 4096] == [4096] * 3
