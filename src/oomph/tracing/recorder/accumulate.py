"""Where autograd's C++ code adds in place on real tensors, and out of place under a Python mode.

Source: torch/csrc/autograd/input_buffer.cpp (`accumulate`: in place when no graph is made of it, it holds the last
reference, the tensor is dense and no tensor subclass), torch/csrc/autograd/FunctionsManual.cpp (derivatives that write
in place unless `areAnyTensorSubclassLike`). A mode makes every tensor look like a subclass, so both take the other way.
"""

from __future__ import annotations

from types import FrameType
from typing import Any

#: Out-of-place operators of derivatives, and what they are on real tensors.
_IN_PLACE = {
    "aten.scatter": "scatter_",
    "aten.scatter_add": "scatter_add_",
    "aten.scatter_reduce": "scatter_reduce_",
    "aten.index_add": "index_add_",
    "aten.index_put": "_index_put_impl_",
    "aten.put": "put_",
}
#: The same, of operators that only these derivatives call so: node -> operator -> what it is on real tensors.
_OF_NODES = {
    "BinaryCrossEntropyWithLogitsBackward0": {"aten.sub.Tensor": "sub_", "aten.mul.Tensor": "mul_"},
}
_FIRST = frozenset({"aten.add", "aten.sub", "aten.mul"})
#: In a dispatch from C++, these references are torch's own: the argument of the call, the Python object's, and the
#: variable of the caller. One more means that somebody else holds the tensor.
_OWN_REFERENCES = 5
_OWN_STORAGE_REFERENCES = 2


def candidate(name: str) -> bool:
    """Whether an operator has an in-place twin that autograd would take."""
    return name in _FIRST or name in _IN_PLACE


def from_autograd(frame: FrameType | None) -> bool:
    """Whether the frame that called the operator is autograd's engine itself, and no Python function in between."""
    while frame is not None:
        file = frame.f_code.co_filename
        if file.endswith(("eval_frame.py", "_compile.py", "_ops.py")):
            frame = frame.f_back
            continue
        return file.endswith("graph.py") and frame.f_code.co_name == "_engine_run_backward"
    return True


def _sole(tensor: Any) -> bool:
    import torch

    storage = tensor.untyped_storage()
    return bool(torch._C._storage_Use_Count(storage._cdata) <= _OWN_STORAGE_REFERENCES)  # noqa: SLF001


def in_place(name: str, full: str, args: tuple[Any, ...], kwargs: dict[str, Any], fake: Any) -> Any:
    """The in-place operator that real tensors would take here, or None. Called inside backward only."""
    import torch

    aten = torch.ops.aten
    if name in _FIRST:
        return _arithmetic(full, args, kwargs, fake)
    other = _IN_PLACE.get(name)
    if other is None or type(args[0]) is not fake or args[0].fake_device.type != "cuda" or not _sole(args[0]):
        return None
    packet = getattr(aten, other)
    return packet.default if other == "_index_put_impl_" else getattr(packet, full.rpartition(".")[2])


def _arithmetic(full: str, args: tuple[Any, ...], kwargs: dict[str, Any], fake: Any) -> Any:
    """`add_` of the input buffer, or what a derivative writes into its own temporary."""
    import torch

    first, second = args[0], args[1]
    # Of the derivatives none, and of the sums none, is in place where backward makes a graph.
    if torch.is_grad_enabled() or kwargs or type(first) is not fake or not isinstance(second, torch.Tensor):
        return None
    node = torch._C._current_autograd_node()  # noqa: SLF001 - what the engine runs now
    if node is None or first.dtype != second.dtype or first.fake_device.type != "cuda":
        return None
    if not _sole(first) or first._use_count() > _OWN_REFERENCES:  # noqa: SLF001
        return None
    if full == "aten.add.Tensor":
        dense = first.numel() * first.element_size() == first.untyped_storage().nbytes()
        return torch.ops.aten.add_.Tensor if dense and first.shape == second.shape else None
    other = _OF_NODES.get(node.name(), {}).get(full)
    if other is None or torch.broadcast_shapes(first.shape, second.shape) != first.shape:
        return None
    return getattr(torch.ops.aten, other).Tensor
