"""Phases of a script that does not call `oomph.record()`: OOMPH_AUTO=phases (trials, `oomph record --phases`).

The recording begins with the first call of a module that has parameters, or with the first optimizer step: by then the
process has chosen its device and knows its rank, and a launcher that imports PyTorch never comes so far. Every module
that is called at the top (not inside another's forward, nor in autograd's recomputation) is watched as a root model.
A script that calls `oomph.record()` itself, earlier, is left to that.

Where there can be no CUDA device the simulated card is there from PyTorch's import on, so that its limit holds for
loading too. With CUDA nothing is touched before the script has: the driver is not to be asked before processes fork.
"""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from oomph.probe.base import Device
    from oomph.recording.recorder import Recording

#: Value of OOMPH_AUTO that asks for this.
PHASES = "phases"
#: What the drivers of NVIDIA (Linux, WSL, Tegra) and AMD put there.
_NODES = ("/dev/nvidiactl", "/dev/nvidia0", "/dev/dxg", "/dev/nvhost-gpu", "/dev/nvgpu", "/dev/kfd")
#: A script with more root models than this calls its layers one by one.
_MOST_ROOTS = 256


class Unasked:
    """One per process. Nothing that goes wrong here reaches the job."""

    def __init__(self) -> None:
        import torch

        self._torch = torch
        self._pid = os.getpid()
        self._tried = False
        self._roots = 0
        self._recording: Recording | None = None
        self._handles: list[Any] = []
        self._device: Device | None = None
        self._waits_for_cuda = may_have_gpu(torch)
        if not self._waits_for_cuda:
            from oomph.probe.choose import device

            self._device = device("cpu")

    @property
    def device(self) -> Device | None:
        """The card that was there from the start, where no recording has begun with it."""
        return self._device if self._recording is None and os.getpid() == self._pid else None

    def install(self) -> None:
        """From now on."""
        # PyTorch warns at each call of a compiled module where there are such hooks; a job may turn warnings to errors.
        warnings.filterwarnings(
            "ignore", message=r"Using `torch\.compile\(module\)` when there are global hooks"
        )
        from torch.nn.modules.module import register_module_forward_pre_hook
        from torch.optim.optimizer import register_optimizer_step_pre_hook

        self._handles = [
            register_module_forward_pre_hook(self._before_forward),
            register_optimizer_step_pre_hook(self._before_step),
        ]

    def _before_forward(self, module: Any, args: Any) -> None:
        if self._torch.compiler.is_compiling() or os.getpid() != self._pid:
            return
        try:
            self._called(module, args)
        except Exception:  # noqa: BLE001 - never the job's business
            self._remove()

    def _before_step(self, _optimizer: Any, _args: Any, _kwargs: Any) -> None:
        if not self._tried and not self._torch.compiler.is_compiling() and os.getpid() == self._pid:
            try:
                self._begin()
            except Exception:  # noqa: BLE001 - as above
                self._remove()

    def _called(self, module: Any, args: Any) -> None:
        recording = self._recording
        if recording is None and self._tried:
            return
        if recording is not None and (not recording.active or recording.hooks.inside(module)):
            return
        if next(module.parameters(), None) is None:
            return  # a loss, an activation
        if recording is None:
            recording = self._begin()
        if recording is None or self._roots >= _MOST_ROOTS:
            return
        self._roots += 1
        recording.watch(module)
        # Its own hooks are asked from the next call on: PyTorch has made the list of this one's already.
        recording.safely(recording.hooks.called, module, args)

    def _begin(self) -> Recording | None:
        if self._waits_for_cuda and not self._torch.cuda.is_initialized():
            return None  # what runs on the CPU before is not what memory runs out for
        self._tried = True
        from oomph.recording.api import current, record

        if current() is not None:
            self._remove()
            return None
        self._recording = record(device=self._device, history=0, warn=False, every=0)
        return self._recording

    def _remove(self) -> None:
        self._tried = True
        for handle in self._handles:
            handle.remove()
        self._handles = []


def may_have_gpu(torch: Any) -> bool:
    """Whether this PyTorch may come to use a GPU here. Asks neither driver nor library: only files and variables."""
    version = torch.version
    if getattr(version, "cuda", None) is None and getattr(version, "hip", None) is None:
        return False
    for name in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"):
        visible = os.environ.get(name)
        if visible is not None and visible.strip() in ("", "-1"):
            return False
    return os.name == "nt" or any(Path(node).exists() for node in _NODES)


_here: list[Unasked] = []


def begin() -> None:
    """Records this process as soon as it trains. A second time is nothing. Raises UsageError for a device that cannot
    be (a capacity that is no size)."""
    if not _here:
        _here.append(Unasked())
        _here[0].install()


def waiting_device() -> Device | None:
    """The card of a process whose recording has not begun: memory may run out before it trains."""
    return _here[0].device if _here else None
