"""What blocks are for and which phase they belong to, on a training loop whose bytes can be counted by hand."""

from __future__ import annotations

import pytest

from tests.tracing.programs import Seen, traced

WIDTH, BATCH = 1024, 256
WEIGHT = WIDTH * WIDTH * 4
ROWS = BATCH * WIDTH * 4

PROGRAM = f"""
linear = torch.nn.Linear
model = torch.nn.Sequential(linear({WIDTH}, {WIDTH}), torch.nn.ReLU(), linear({WIDTH}, {WIDTH})).cuda()
optimizer = torch.optim.Adam(model.parameters())
for _ in range(2):
    x = torch.randn({BATCH}, {WIDTH}, device="cuda")
    loss = model(x).square().sum()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
model.eval()
with torch.no_grad():
    model(torch.randn({BATCH}, {WIDTH}, device="cuda"))
"""


@pytest.fixture(scope="module")
def seen() -> Seen:
    return traced(PROGRAM)


def blocks(seen: Seen, category: str) -> list[tuple[int, str]]:
    return [(one["size"], one["label"]) for one in seen.blocks if one["category"] == category]


def test_parameters_have_their_names(seen):
    assert sorted(blocks(seen, "parameters")) == sorted(
        [(WEIGHT, "0.weight"), (WIDTH * 4, "0.bias"), (WEIGHT, "2.weight"), (WIDTH * 4, "2.bias")]
    )


def test_each_step_makes_a_gradient_for_each_parameter(seen):
    sizes = [size for size, _ in blocks(seen, "gradients")]
    assert sizes.count(WEIGHT) == 4
    assert sizes.count(WIDTH * 4) == 4


def test_adam_holds_two_moments_for_each_weight(seen):
    sizes = [size for size, _ in blocks(seen, "optimizer state")]
    assert sizes.count(WEIGHT) == 4


def test_activations_belong_to_modules(seen):
    kept = blocks(seen, "activations")
    # Kept for backward in each of two steps: the input, what ReLU makes of the first layer's output (which itself is
    # not kept), and the second layer's output, for the square.
    assert [kept.count((ROWS, label)) for label in ("0", "1", "2")] == [0, 2, 2]
    # The input of the evaluation is the third.
    assert kept.count((ROWS, "input")) == 3


def test_the_peak_of_each_phase_is_what_is_held_in_it(seen):
    model = 2 * WEIGHT + 2 * WIDTH * 4
    assert seen.peak_by_phase["load"] >= model
    # In the second step both moments are there, and the two workspaces; in forward the input, what ReLU made and the
    # second layer's output with its square, and little of a few bytes.
    exactly = 3 * model + 4 * ROWS + 2 * 8_519_680
    assert exactly <= seen.peak_by_phase["forward"] <= exactly + 20 * 512
    assert seen.peak_by_phase["optimizer"] >= 4 * model
    assert seen.peak_by_phase["eval"] < seen.peak_by_phase["backward"]


def test_steps_are_counted(seen):
    assert seen.steps_done == 2


def test_a_trace_ends_after_the_wanted_steps():
    assert traced(PROGRAM, steps=1).steps_done == 1


def test_cublas_keeps_one_workspace_for_each_thread(seen):
    # 4096 * 2 * 1024 + 16 * 8 * 1024 bytes before Hopper; forward and backward run on threads of their own.
    assert [size for size, _ in blocks(seen, "workspace")] == [8_519_680] * 2


def test_parameters_are_told_where_no_forward_ran_yet():
    """The script ends before anything was called: two weights of 4 MiB, and 8 MiB of which nothing tells."""
    program = f"""
linear = torch.nn.Linear
model = torch.nn.Sequential(linear({WIDTH}, {WIDTH}, bias=False), torch.nn.BatchNorm1d({WIDTH})).cuda()
other = torch.nn.Parameter(torch.empty({WIDTH}, {WIDTH}, device="cuda"))
data = torch.empty({2 * WIDTH}, {WIDTH}, device="cuda")
"""
    found = traced(program)
    told = sorted(blocks(found, "parameters"), key=lambda one: one[1])
    named = [each for each in told if each[0] != 8]  # num_batches_tracked
    # Of a parameter in no module only the operator that made it is known.
    assert {label for _, label in named} == {
        "empty",
        "0.weight",
        *(f"1.{name}" for name in ("weight", "bias", "running_mean", "running_var")),
    }
    assert [size for size, _ in named].count(WEIGHT) == 2
    assert [size for size, _ in blocks(found, "unknown")] == [2 * WEIGHT]


def test_parameters_are_told_where_memory_runs_out_before_the_first_forward():
    program = f"""
def build():
    model = torch.nn.Linear({WIDTH}, {WIDTH}, bias=False).cuda()
    torch.empty(1 << 40, device="cuda")
try:
    build()
except torch.OutOfMemoryError:
    pass
"""
    found = traced(program, capacity_bytes=1 << 30)
    assert blocks(found, "parameters") == [(WEIGHT, "weight")]
