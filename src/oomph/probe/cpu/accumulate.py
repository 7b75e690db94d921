"""Where autograd's C++ code adds in place on plain tensors, and out of place under a Python mode.

Source: torch/csrc/autograd/input_buffer.cpp (`accumulate`: in place when no graph is made of it, it holds the last
reference, the tensor is dense and no tensor subclass), torch/csrc/autograd/FunctionsManual.cpp (derivatives that write
in place unless `areAnyTensorSubclassLike`). A mode makes every tensor look like a subclass, so both take the other way,
and a peak would count a tensor that a run without the mode does not have. The twins compute the same numbers.
"""

from __future__ import annotations

import sys
from functools import cache
from types import FrameType
from typing import Any

#: Out-of-place operators of derivatives, and what they are on plain tensors.
_TWINS = {
    "scatter": "scatter_",
    "scatter_add": "scatter_add_",
    "scatter_reduce": "scatter_reduce_",
    "index_add": "index_add_",
    "index_put": "_index_put_impl_",
    "put": "put_",
}
_BETWEEN = ("eval_frame.py", "_compile.py", "_ops.py", "_python_dispatch.py")


@cache
def operators() -> dict[Any, Any]:
    """The in-place twin by operator."""
    import torch

    found = {torch.ops.aten.add.Tensor: torch.ops.aten.add_.Tensor}
    for name, other in _TWINS.items():
        packet, twins = getattr(torch.ops.aten, name, None), getattr(torch.ops.aten, other, None)
        for overload in () if packet is None or twins is None else packet.overloads():
            twin = getattr(twins, "default" if other == "_index_put_impl_" else overload, None)
            if twin is not None and not overload.endswith("out"):
                found[getattr(packet, overload)] = twin
    return found


def in_place(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The twin that a run without the mode would take here, or None. `function` is one of `operators`."""
    import torch

    if torch.is_grad_enabled() or torch._C._current_autograd_node() is None:  # noqa: SLF001
        return None
    if not _from_autograd(sys._getframe(2)):  # noqa: SLF001
        return None
    first = args[0]
    if not _is_sole(first, *_references()):
        return None
    if function is torch.ops.aten.add.Tensor:
        second = args[1]
        if kwargs or not isinstance(second, torch.Tensor) or first.dtype != second.dtype:
            return None
        dense = first.numel() * first.element_size() == first.untyped_storage().nbytes()
        return operators()[function] if dense and first.shape == second.shape else None
    return operators()[function]


def _from_autograd(frame: FrameType | None) -> bool:
    """Whether autograd's engine itself called the operator, and no Python function in between."""
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.endswith(_BETWEEN):
            return file.endswith("graph.py") and frame.f_code.co_name == "_engine_run_backward"
        frame = frame.f_back
    return True


def _is_sole(tensor: Any, of_tensor: int, of_storage: int) -> bool:
    import torch

    storage = tensor.untyped_storage()
    return bool(
        torch._C._storage_Use_Count(storage._cdata) <= of_storage  # noqa: SLF001
        and tensor._use_count() <= of_tensor  # noqa: SLF001
    )


_counts: list[tuple[int, int]] = []


def _references() -> tuple[int, int]:
    """How many references to a tensor, and to its storage, a mode sees where autograd holds the only one. Each version
    of torch has its own way, so it is measured. (-1, -1), which nothing is, where that fails."""
    return _counts[0] if _counts else (-1, -1)


def measure() -> None:
    """Measures `_references`: the sum of two gradients that nobody else holds."""
    if _counts:
        return
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    add = torch.ops.aten.add.Tensor
    seen: list[tuple[int, int]] = []

    class Watch(TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(
            self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
        ) -> Any:
            if func is add and torch._C._current_autograd_node() is not None:  # noqa: SLF001
                first = args[0]
                storage = first.untyped_storage()
                seen.append(
                    (first._use_count(), torch._C._storage_Use_Count(storage._cdata))  # noqa: SLF001
                )
            return func(*args, **(kwargs or {}))

    try:
        with torch.enable_grad(), torch.inference_mode(False):
            one = torch.ones(2, requires_grad=True)
            total = (one * 1).exp()
            total = (total.sin() + total.cos()).sum()
            with Watch():
                torch.autograd.grad(total, one)
    except (AttributeError, RuntimeError):
        seen.clear()
    _counts.append(seen[0] if len(seen) == 1 else (-1, -1))
