"""What has no answer: refused by name, instead of an AttributeError or a call into a driver that is not there."""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import Any, NoReturn

from oomph.tracing.device.answers.state import State
from oomph.tracing.errors import TraceRefused

_NAME = re.compile(r"\b_C\.(_(?:cuda|accelerator|nccl|gds)_\w+)")
#: Used by DataParallel and torch.cuda.comm, which work on several devices from one process.
_COMM = (
    "_broadcast",
    "_broadcast_out",
    "_broadcast_coalesced",
    "_scatter",
    "_scatter_out",
    "_gather",
    "_gather_out",
)
#: Switches of things that make no difference to a trace: off, and setting them does nothing.
_OFF = ("_cuda_tunableop_is_enabled", "_cuda_tunableop_tuning_is_enabled", "_cuda_record_untuned_is_enabled")
_IGNORED = ("_cuda_tunableop_enable", "_cuda_tunableop_tuning_enable", "_cuda_record_untuned_enable")
#: Classes, and what a build without a GPU answers as well as any.
_KEPT = (
    "_cuda_CUDAAllocator",
    "_cuda_CUDAAllocator_AllocatorState",
    "_cuda_get_cudnn_benchmark_limit",
    "_cuda_set_cudnn_benchmark_limit",
)


@functools.cache
def names(root: Path) -> tuple[str, ...]:
    """Every function of `torch._C` for CUDA that the Python code of the installed torch calls, in order."""
    found: set[str] = set()
    for folder in ("cuda", "accelerator", "backends/cuda", "backends/cudnn"):
        for path in sorted((root / folder).glob("*.py")):
            found.update(_NAME.findall(path.read_text(encoding="utf-8", errors="replace")))
    return tuple(sorted(found))


def install(state: State) -> None:
    """Refuses the rest. Runs last: what was answered before stays."""
    state.answer(**{name: lambda *_: False for name in _OFF}, **{name: lambda *_: None for name in _IGNORED})
    root = Path(state.torch.__file__).parent
    for name in names(root):
        if name not in state.functions and name not in _KEPT:
            state.answer(**{name: refusing(f"torch._C.{name}")})
    for name in _COMM:
        state.answer(**{name: _refusing_comm})
    several = state.cuda.nccl
    state.replace(several, is_available=lambda tensors: False)  # noqa: ARG005 - as without NCCL
    state.replace(
        state.memory,
        CUDAPluggableAllocator=refusing("torch.cuda.memory.CUDAPluggableAllocator"),
        change_current_allocator=refusing("torch.cuda.memory.change_current_allocator"),
    )
    state.replace(
        state.cuda,
        GreenContext=type("GreenContext", (), {"create": staticmethod(refusing("torch.cuda.GreenContext"))}),
        CUDAPluggableAllocator=refusing("torch.cuda.memory.CUDAPluggableAllocator"),
        change_current_allocator=refusing("torch.cuda.memory.change_current_allocator"),
    )


def refusing(name: str) -> Any:
    """A function that refuses by that name."""

    def refuse(*_: object, **__: object) -> NoReturn:
        raise TraceRefused(
            f"{name} needs a GPU and has no answer in a trace; leave the call out of the script for the trace."
        )

    return refuse


def _refusing_comm(*_: object, **__: object) -> NoReturn:
    raise TraceRefused(
        "Copies between several GPUs of one process (torch.nn.DataParallel, torch.cuda.comm) cannot be traced; trace "
        "one GPU, or one rank of DistributedDataParallel with --world."
    )
