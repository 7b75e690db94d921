"""What x[:, -1, :] and its like record for backward: as torch 2.4.1 and 2.8.0 did it, and as 2.9.0 and 2.13.0 do."""

from __future__ import annotations

import json

import pytest

from tests.tracing.programs import traced

_PROGRAM = """
import json

def graph(tensor):
    names, node = [], tensor.grad_fn
    while node is not None and "Accumulate" not in node.name():
        names.append(node.name().removesuffix("Backward0"))
        node = node.next_functions[0][0]
    return names

x = torch.zeros(3, 4, 5, device="cuda", requires_grad=True)
places = torch.tensor([0, 2], device="cuda")
mask = torch.zeros(4, 5, dtype=torch.bool)
made = [x[:, -1, :], x[:, 1:3], x[..., :], x[:, None, 0], x[:, places], x[:, mask], x[0, 1, 2]]
print(json.dumps([[graph(one), list(one.shape)] for one in made]))
"""


@pytest.fixture(scope="module")
def old():
    return json.loads(traced(_PROGRAM, torch=(2, 8)).printed)


def test_an_old_torch_records_each_colon(old):
    graphs = [graph for graph, _ in old]
    assert graphs[0] == ["Slice", "Select", "Slice"]
    assert graphs[1] == ["Slice", "Slice"]
    assert graphs[2] == ["Slice"]
    assert graphs[3] == ["Select", "Unsqueeze", "Slice"]
    assert graphs[4] == ["Index", "Slice"]
    assert graphs[5] == ["Index", "Slice"]
    assert graphs[6] == ["Select", "Select", "Select"]


def test_the_shapes_are_those_of_torch(old):
    assert [shape for _, shape in old] == [[3, 5], [3, 2, 5], [3, 4, 5], [3, 1, 5], [3, 2, 5], [3, 0], []]


def test_backward_takes_a_gradient_of_the_whole_for_each():
    program = """
    x = torch.zeros(3, 4, 5, device="cuda", requires_grad=True)
    y = x[:, -1, :].sum()
    mark()
    y.backward()
    """
    # 3 * 4 * 5 floats are 240 bytes: the gradient itself, and in an old torch one more for the first colon.
    old = traced(program, torch=(2, 8)).events_after_mark
    new = traced(program, torch=(2, 9)).events_after_mark
    assert old.count(("alloc", 240)) == 2
    assert new.count(("alloc", 240)) == 1
