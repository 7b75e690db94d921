"""Profilers: markers (NVTX) do nothing, for nothing listens, and torch's profiler records the CPU alone.

Source: torch/cuda/nvtx.py, torch/autograd/profiler.py.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from oomph.tracing.device.answers.state import State


class _Nvtx:
    """Stands in for torch._C._nvtx."""

    def __init__(self) -> None:
        self._depth = 0
        self._ranges = itertools.count(1)

    def rangePushA(self, message: str) -> int:  # noqa: N802, ARG002
        """The depth of the range that begins, from 0."""
        self._depth += 1
        return self._depth - 1

    def rangePop(self) -> int:  # noqa: N802
        """The depth of the range that ends."""
        self._depth = max(0, self._depth - 1)
        return self._depth

    def rangeStartA(self, message: str) -> int:  # noqa: N802, ARG002
        return next(self._ranges)

    def rangeEnd(self, identity: int) -> None:  # noqa: N802
        pass

    def markA(self, message: str) -> None:  # noqa: N802
        pass

    def deviceRangeStart(self, message: str, stream: int = 0) -> int:  # noqa: N802, ARG002
        return next(self._ranges)

    def deviceRangeEnd(self, handle: object, stream: int = 0) -> None:  # noqa: N802
        pass


def install(state: State) -> None:
    """NVTX without NVTX, and profilers without a GPU."""
    nvtx, patches = _Nvtx(), state.recorder.patches
    state.replace(state.cuda.nvtx, _nvtx=nvtx)
    state.answer(_nvtx=nvtx)
    profiler = state.torch.autograd.profiler

    def on_cpu(make: Callable[..., None], *arguments: object, **options: Any) -> None:
        if options.get("use_cuda") or options.get("use_device") == "cuda":
            options.update(use_device=None)
            options.pop("use_cuda", None)
            state.recorder.assume("torch's profiler recorded the CPU only")
        make(*arguments, **options)

    patches.wrap(profiler.profile, "__init__", on_cpu)
    patches.set(profiler.emit_nvtx, "__enter__", lambda emitter: emitter)
    patches.set(profiler.emit_nvtx, "__exit__", lambda emitter, *error: False)  # noqa: ARG005
