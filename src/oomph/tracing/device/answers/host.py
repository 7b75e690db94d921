"""Pinned memory of the host, where PyTorch does not take it from the CPU's allocator by itself (see `device.arm`)."""

from __future__ import annotations

from typing import Any

from oomph.tracing.device.answers.state import State


def install(state: State) -> None:
    """CUDA builds before 2.5 or so ask the driver in `pin_memory()`: there a copy in ordinary memory stands in."""
    torch = state.torch
    try:
        torch.ones(1, device="cpu").pin_memory()
    except RuntimeError:
        patches = state.recorder.patches
        patches.set(torch.Tensor, "pin_memory", _copied)
        patches.set(torch.Tensor, "is_pinned", lambda tensor, *_: False)  # noqa: ARG005


def _copied(tensor: Any, *_: object) -> Any:
    return tensor.clone()
