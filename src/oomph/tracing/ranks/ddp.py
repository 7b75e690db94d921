"""DistributedDataParallel: its reducer is C++ and runs as it is; buckets, copies and views are its own.

Two things need help. The check that all ranks have the same parameters compares with ranks that are not there. And the
reducer takes the buckets' values from the future of its all-reduce, which the group that sends nothing leaves empty:
a communication hook that returns the bucket itself takes its place.
Source: torch/csrc/distributed/c10d/reducer.cpp (`mark_bucket_ready`, `finalize_backward`,
`verify_params_across_processes`).
"""

from __future__ import annotations

import weakref
from types import ModuleType
from typing import Any

from oomph.memory.categories import CATEGORIES, Category
from oomph.tracing.ranks.everywhere import everywhere
from oomph.tracing.recorder.recorder import Recorder


def install(recorder: Recorder) -> None:
    """Prepares DistributedDataParallel."""
    import torch.distributed as dist

    if not dist.is_available():
        return
    _verification(recorder, dist)
    recorder.patches.when_imported("torch.nn.parallel.distributed", lambda module: _hooks(recorder, module))


def _verification(recorder: Recorder, dist: Any) -> None:
    """Ranks exchange the number of parameters, and their sizes, by an all-gather of small tensors."""

    def verified(_original: Any, *_args: Any, **_kwargs: Any) -> None:
        return None

    everywhere(recorder, dist, "_verify_params_across_processes", verified)
    # Its timer of CUDA events is not in a build for the CPU (c10d/reducer_cuda.cpp); it measures, and decides nothing.
    recorder.patches.set(dist.Logger, "set_runtime_stats_and_log", lambda _logger: None)


def _hooks(recorder: Recorder, module: ModuleType) -> None:
    import torch.distributed as dist

    hooked: weakref.WeakSet[Any] = weakref.WeakSet()
    communication = CATEGORIES.index(Category.COMMUNICATION)

    def sent(_state: Any, bucket: Any) -> Any:
        import torch

        buffer = bucket.buffer()
        block = recorder.storages.block_of(buffer)
        if block is not None:
            block.category = communication
            block.label = recorder.label_number(f"DDP bucket {bucket.index()}")
        future: Any = torch.futures.Future()
        future.set_result(buffer)
        return future

    def before(original: Any, ddp: Any, *args: Any, **kwargs: Any) -> Any:
        if ddp not in hooked and getattr(ddp, "reducer", None) is not None:
            hooked.add(ddp)
            dist._register_comm_hook(ddp.reducer, None, sent)  # noqa: SLF001 - as register_comm_hook does
        return original(ddp, *args, **kwargs)

    def user_hook(original: Any, ddp: Any, *args: Any, **kwargs: Any) -> Any:
        hooked.add(ddp)
        return original(ddp, *args, **kwargs)

    def built_in(_original: Any, ddp: Any, kind: Any) -> None:
        from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

        half = kind == dist.BuiltinCommHookType.FP16_COMPRESS
        hook = default_hooks.fp16_compress_hook if half else default_hooks.allreduce_hook
        ddp.register_comm_hook(ddp.process_group, hook)

    ddp_class = module.DistributedDataParallel
    recorder.patches.wrap(ddp_class, "_pre_forward", before)
    recorder.patches.wrap(ddp_class, "register_comm_hook", user_hook)
    recorder.patches.wrap(ddp_class, "_register_builtin_comm_hook", built_in)
