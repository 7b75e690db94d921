"""Private memory pools: MemPool, use_mem_pool, and what torch.cuda.graphs would use.

Source: torch/cuda/memory.py, torch/csrc/cuda/MemPool.cpp and c10::cuda::MemPool (numbers of pools).
"""

from __future__ import annotations

import itertools
from typing import Any

from oomph.memory.allocator.errors import ReplayError
from oomph.tracing.device.answers.state import State
from oomph.tracing.errors import TraceRefused

_Pool = tuple[int, int]


def install(state: State) -> None:
    """Pools of the simulated allocator."""
    recorder = state.recorder

    def allocator(device: int) -> Any:
        return recorder.memory(state.checked(int(device))).allocator

    def begin(device: int, pool: _Pool) -> None:
        allocator(device).begin_pool(tuple(pool))

    def begin_stream(device: int, stream: Any, pool: _Pool) -> None:
        allocator(device).begin_pool(tuple(pool), [int(stream.cuda_stream)])

    def end(device: int, pool: _Pool) -> None:
        allocator(device).end_pool(tuple(pool))

    def release(device: int, pool: _Pool) -> None:
        allocator(device).release_pool(tuple(pool))

    functions = {
        "_cuda_beginAllocateToPool": begin,
        "_cuda_beginAllocateCurrentThreadToPool": begin,
        "_cuda_beginAllocateCurrentStreamToPool": begin_stream,
        "_cuda_endAllocateToPool": end,
        "_cuda_endAllocateCurrentStreamToPool": end,
        "_cuda_releasePool": release,
    }
    state.answer(**functions)
    state.replace(state.memory, **functions)
    pool_class = _pool_class(state)
    for owner in (state.memory, state.cuda):
        state.replace(owner, MemPool=pool_class)
    state.answer(_MemPool=pool_class)


def _pool_class(state: State) -> type:
    recorder = state.recorder
    numbers = itertools.count(1)

    class MemPool:
        """A pool of the simulated allocator on the device that was current."""

        def __init__(
            self, allocator: object = None, use_on_oom: bool = False, no_split: bool = False, **_: object
        ) -> None:
            if allocator is not None:
                raise TraceRefused(
                    "torch.cuda.MemPool with an allocator of its own cannot be traced: only PyTorch's own allocator "
                    "is simulated. Take the allocator away for the trace."
                )
            self.id = (0, next(numbers))
            self.device = state.current
            self.allocator = None
            self._memory = recorder.memory(self.device)
            self._memory.allocator.create_pool(self.id)
            if use_on_oom:
                self._memory.allocator.use_on_oom(self.id)
            if no_split:
                self._memory.allocator.no_split(self.id)

        def __del__(self) -> None:
            memory = getattr(self, "_memory", None)
            if memory is not None:
                try:
                    memory.allocator.release_pool(self.id)
                    memory.allocator.empty_cache(self.id)
                except ReplayError:  # the script released it by itself
                    return

        def use_count(self) -> int:
            """How many owners it has."""
            private = self._memory.allocator.private.get(self.id)
            return 0 if private is None else int(private.uses)

        def snapshot(self, include_traces: bool = True) -> Any:
            """The segments of this pool."""
            return state.memory.memory_snapshot(self.id, include_traces)

    return MemPool
