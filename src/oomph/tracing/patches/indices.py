"""Indices that are Python lists or numpy arrays: torch makes a tensor of them beside the indexed one, in C++ where no
dispatch mode sees it (torch/csrc/autograd/python_variable_indexing.cpp, sequenceToVariable). Here they are made where a
trace sees them: on the host, then copied, as torch does it.
"""

from __future__ import annotations

from typing import Any

from oomph.tracing.recorder.recorder import Recorder


def install(recorder: Recorder) -> None:
    """Replaces indexing of tensors on the GPU, and `Tensor.new_tensor`."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensor

    def there(tensor: Any, index: Any) -> Any:
        if not isinstance(tensor, FakeTensor):
            return index
        if type(index) is tuple:
            return tuple(_made(tensor, one) if _is_data(one) else one for one in index)
        return _made(tensor, index) if _is_data(index) and _is_plain(index) else index

    def getitem(original: Any, tensor: Any, index: Any) -> Any:
        return original(tensor, there(tensor, index) if type(index) not in (int, slice) else index)

    def setitem(original: Any, tensor: Any, index: Any, value: Any) -> None:
        original(tensor, there(tensor, index) if type(index) not in (int, slice) else index, value)

    def new_tensor(original: Any, tensor: Any, data: Any, **kwargs: Any) -> Any:
        if not isinstance(tensor, FakeTensor):
            return original(tensor, data, **kwargs)
        kwargs = {"dtype": tensor.dtype, "device": tensor.device, **kwargs}
        return torch.tensor(data, **{key: one for key, one in kwargs.items() if one is not None})

    recorder.patches.wrap(torch.Tensor, "__getitem__", getitem)
    recorder.patches.wrap(torch.Tensor, "__setitem__", setitem)
    recorder.patches.wrap(torch.Tensor, "new_tensor", new_tensor)


def _is_data(index: Any) -> bool:
    return type(index) is list or (type(index).__module__ == "numpy" and hasattr(index, "__array__"))


def _is_plain(index: Any) -> bool:
    """Whether a list is one index. One of slices, tensors or lists is taken as several (treatSequenceAsTuple)."""
    return type(index) is not list or all(isinstance(one, int) for one in index)


def _made(tensor: Any, index: Any) -> Any:
    import torch

    try:
        made = torch.as_tensor(index, device="cpu")
    except (TypeError, ValueError, RuntimeError):
        return index  # torch says what is wrong with it
    if made.numel() == 0 or made.dtype not in (torch.bool, torch.uint8):
        made = made.to(torch.int64)
    return made.to(tensor.device)
