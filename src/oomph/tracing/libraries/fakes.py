"""Tensors that hold nothing, made outside any operator of the script."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from oomph.tracing.recorder.recorder import Recorder


def host_tensor(recorder: Recorder, shape: tuple[int, ...], dtype: Any) -> Any:
    """A tensor on the CPU without memory, whatever its size."""
    import torch

    return _empty(recorder, shape, dtype, torch.device("cpu"))


def unseen_device_tensor(recorder: Recorder, shape: tuple[int, ...], dtype: Any, device: Any) -> Any:
    """A tensor on the GPU whose memory is not PyTorch's allocator's (managed memory): nothing is recorded."""
    tensor = _empty(recorder, shape, dtype, device)
    recorder.storages.hold(tensor.untyped_storage(), None)
    return tensor


def is_fake(tensor: Any) -> bool:
    """Whether it is one of torch's fake tensors."""
    from torch._subclasses.fake_tensor import FakeTensor

    return isinstance(tensor, FakeTensor)


def _empty(recorder: Recorder, shape: tuple[int, ...], dtype: Any, device: Any) -> Any:
    import torch

    mode = _mode(recorder)
    kwargs = {"dtype": dtype, "device": device}
    return mode.fake_mode.__torch_dispatch__(torch.ops.aten.empty.memory_format, (), (list(shape),), kwargs)


def _mode(recorder: Recorder) -> Any:
    """The dispatch mode of this recorder, from torch's stack of modes."""
    from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

    for mode in reversed(_get_current_dispatch_mode_stack()):
        if getattr(mode, "recorder", None) is recorder:
            return mode
    raise RuntimeError("a stand-in tensor was asked for outside the trace")
