"""Where autograd's C++ code adds in place on plain tensors, and out of place under a Python mode.

Source: torch/csrc/autograd/input_buffer.cpp (`accumulate`: in place when no graph is made of it, it holds the last
reference, the tensor is dense and no tensor subclass), torch/csrc/autograd/FunctionsManual.cpp (derivatives that write
into fresh zeros in place unless `areAnyTensorSubclassLike`). A mode makes every tensor look like a subclass, so both
take the other way, and a peak would count a tensor that a run without the mode does not have. The operators run as they
are, so that no number changes; their results are counted in the place of what they would have been written into.
"""

from __future__ import annotations

import sys
from functools import cache
from types import FrameType
from typing import Any

#: Operators of derivatives whose first argument is fresh zeros, by the node whose derivative it is.
_SELECTING = ("Max", "Min", "Kthvalue", "Median", "Nanmedian", "Mode", "Topk", "Sort")
_WRITES = {
    "GatherBackward": "scatter_add",
    "IndexBackward": "index_put",
    "IndexSelectBackward": "index_add",
    "TakeBackward": "put",
    **{f"{name}Backward": "scatter" for name in _SELECTING},
}
_BETWEEN = ("eval_frame.py", "_compile.py", "_ops.py", "_python_dispatch.py")


@cache
def operators() -> frozenset[Any]:
    """The operators that may be written in place."""
    import torch

    found = {torch.ops.aten.add.Tensor}
    for name in set(_WRITES.values()):
        packet = getattr(torch.ops.aten, name)
        found |= {
            getattr(packet, overload) for overload in packet.overloads() if not overload.endswith("out")
        }
    return frozenset(found)


def in_place(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether a run without the mode would write the result into the first argument. `function` is one of `operators`,
    and has not run yet."""
    import torch

    node = torch._C._current_autograd_node()  # noqa: SLF001
    if node is None or torch.is_grad_enabled() or not _from_autograd(sys._getframe(2)):  # noqa: SLF001
        return False
    first = args[0]
    of_tensor, of_storage = _references()
    if torch._C._storage_Use_Count(first.untyped_storage()._cdata) > of_storage:  # noqa: SLF001
        return False
    if function is not torch.ops.aten.add.Tensor:
        return bool(_WRITES.get(node.name().rstrip("0123456789")) == function.overloadpacket.__name__)
    if kwargs or first._use_count() > of_tensor or not isinstance(args[1], torch.Tensor):  # noqa: SLF001
        return False
    dense = first.numel() * first.element_size() == first.untyped_storage().nbytes()
    return bool(dense and first.shape == args[1].shape and first.dtype == args[1].dtype)


def _from_autograd(frame: FrameType | None) -> bool:
    """Whether autograd's engine itself called the operator, and no Python function in between."""
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.endswith(_BETWEEN):
            return file.endswith("graph.py") and frame.f_code.co_name == "_engine_run_backward"
        frame = frame.f_back
    return True


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
