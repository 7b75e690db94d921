"""Indices that lie on the CPU: PyTorch brings them to the GPU inside the operator."""

from __future__ import annotations

from tests.tracing.programs import traced


def test_indices_of_both_devices_work_together_and_those_of_the_cpu_are_copied():
    seen = traced(
        """
        x = torch.zeros(512, 1000, device="cuda")
        there = torch.zeros(512, dtype=torch.long, device="cuda")
        y = x[torch.arange(512), there]
        """
    )
    # A copy of 512 indices of 8 bytes before the 512 results of 4 bytes, as in a real snapshot of torch 2.7.
    assert seen.events[2:5] == [("alloc", 4096), ("alloc", 2048), ("free", 4096)]


def test_writing_through_them_works():
    seen = traced(
        """
        x = torch.zeros(8, 10, device="cuda")
        there = torch.zeros(8, dtype=torch.long, device="cuda")
        x[torch.arange(8), there] = 1.0
        x[torch.arange(8)] = torch.ones(8, 10, device="cuda")
        print(tuple(x.shape))
        """
    )
    assert seen.printed == "(8, 10)\n"


def test_their_gradient_is_added_where_they_were():
    seen = traced(
        """
        x = torch.zeros(8, 10, device="cuda", requires_grad=True)
        x[torch.arange(8), torch.zeros(8, dtype=torch.long, device="cuda")].sum().backward()
        print(tuple(x.grad.shape))
        """
    )
    assert seen.printed == "(8, 10)\n"
