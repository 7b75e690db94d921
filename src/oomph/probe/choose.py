"""Which device this process trains on, and the object that reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oomph.errors import UsageError

if TYPE_CHECKING:
    from oomph.probe.base import Device


_OTHER = "this process has a device of kind {}, whose memory is not read: what is counted is on the CPU"


def device(kind: str | None = None, index: int | None = None) -> Device:
    """The device of this process: CUDA's where there is one, else the CPU. `kind` ("cuda" or "cpu") insists on one;
    `index` is CUDA's as the process sees it (None: the current device).

    Raises UsageError where PyTorch is not installed, or the device that is insisted on is not there.
    """
    try:
        import torch
    except ImportError as error:
        raise UsageError("PyTorch is not installed: pip install 'oomph[torch]'.") from error
    if kind not in (None, "cuda", "cpu"):
        raise UsageError(f"{kind} is no device that can be read: cuda or cpu.")
    there = torch.cuda.is_available()
    if kind == "cuda" and not there:
        raise UsageError("torch.cuda.is_available() is False: there is no CUDA device to read.")
    if kind == "cpu" or not there:
        from oomph.probe.cpu import CpuDevice

        found = CpuDevice()
        other = _other_accelerator(torch)
        if other and kind is None:
            found.limits += (_OTHER.format(other),)
        return found
    from oomph.probe.cuda import CudaDevice

    return CudaDevice(index)


def _other_accelerator(torch: Any) -> str:
    """The kind of an accelerator that is not CUDA ("mps", "xpu"); "" without one."""
    try:
        found = torch.accelerator.current_accelerator(check_available=True)
    except (AttributeError, RuntimeError, TypeError):
        return "mps" if torch.backends.mps.is_available() else ""
    return "" if found is None else str(found.type)
