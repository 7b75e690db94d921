"""Markers for profilers (NVTX): nothing listens, so they do nothing. Source: torch/cuda/nvtx.py."""

from __future__ import annotations

import itertools

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
    """NVTX without NVTX."""
    nvtx = _Nvtx()
    state.replace(state.cuda.nvtx, _nvtx=nvtx)
    state.answer(_nvtx=nvtx)
