"""`tensor.to("cuda")` goes to the current device: that of this rank.

Which device that is, C++ asks a device guard, and the one that stands in where there is no GPU knows only the first
(c10/core/impl/DeviceGuardImplInterface.h, NoOpDeviceGuardImpl). So the number is added before C++ sees the call.
"""

from __future__ import annotations

from typing import Any

from oomph.tracing.recorder.recorder import Recorder


def install(recorder: Recorder) -> None:
    """Adds the current device's number to devices without one."""
    if recorder.settings.device_count < 2:
        return
    import torch

    def numbered(device: Any) -> Any:
        if isinstance(device, str):
            return f"cuda:{torch.cuda.current_device()}" if device == "cuda" else device
        if isinstance(device, torch.device) and device.type == "cuda" and device.index is None:
            return torch.device("cuda", torch.cuda.current_device())
        return device

    def to(original: Any, tensor: Any, *args: Any, **kwargs: Any) -> Any:
        if args:
            args = (numbered(args[0]), *args[1:])
        elif "device" in kwargs:
            kwargs["device"] = numbered(kwargs["device"])
        return original(tensor, *args, **kwargs)

    def cuda(original: Any, tensor: Any, device: Any = None, *args: Any, **kwargs: Any) -> Any:
        device = torch.device("cuda", torch.cuda.current_device()) if device is None else numbered(device)
        return original(tensor, device, *args, **kwargs)

    recorder.patches.wrap(torch.Tensor, "to", to)
    recorder.patches.wrap(torch.Tensor, "cuda", cuda)
