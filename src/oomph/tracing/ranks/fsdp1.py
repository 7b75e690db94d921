"""FullyShardedDataParallel: runs as it is, but for the places where it steps around dispatch modes, and for a full
optimizer state, of which other ranks have parts that nobody here knows.

Source: torch/distributed/fsdp/_common_utils.py (`_no_dispatch_record_stream`), _optim_utils.py (`_optim_state_dict`).
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from oomph.memory.categories import Category
from oomph.tracing.ranks.everywhere import everywhere
from oomph.tracing.recorder.recorder import Recorder


def install(recorder: Recorder) -> None:
    """Lets FSDP1 mark the streams of its flat parameters."""
    recorder.patches.when_imported(
        "torch.distributed.fsdp._common_utils", lambda module: _streams(recorder, module)
    )
    recorder.patches.when_imported(
        "torch.distributed.fsdp.fully_sharded_data_parallel",
        lambda module: _optimizer_state(recorder, module),
    )


def _streams(recorder: Recorder, module: ModuleType) -> None:
    def record_stream(_original: Any, tensor: Any, stream: Any) -> None:
        recorder.record_stream(tensor, int(stream.stream_id))

    everywhere(recorder, module, "_no_dispatch_record_stream", record_stream)


def _optimizer_state(recorder: Recorder, module: ModuleType) -> None:
    """With original parameters a rank has optimizer state only for those that its shard touches."""
    fsdp = module.FullyShardedDataParallel
    original = getattr(fsdp, "_optim_state_dict_impl", None)
    if original is None:
        return

    def state(*args: Any, **kwargs: Any) -> Any:
        try:
            return original(*args, **kwargs)
        except RuntimeError as error:
            if "is not in the optimizer state" not in str(error):
                raise
            _gather(recorder, fsdp, kwargs["model"] if "model" in kwargs else args[0])
            return {"state": {}, "param_groups": []}

    recorder.patches.set(fsdp, "_optim_state_dict_impl", staticmethod(state))


def _gather(recorder: Recorder, fsdp: Any, model: Any) -> None:
    """Two moments of one unit after another, whole, in float32."""
    import torch

    recorder.assume(
        "The optimizer state of FSDP1 that other ranks hold is not known: for gathering it, two float32 moments of "
        "each unit were taken, one unit after another."
    )
    for unit in fsdp.fsdp_modules(model):
        handle = getattr(unit, "_handle", None)
        if handle is not None:
            size = 2 * 4 * handle.flat_param._unpadded_unsharded_size.numel()  # noqa: SLF001 - FSDP's own name
            block = recorder.alloc(
                size,
                device=torch.cuda.current_device(),
                label="gathered optimizer state",
                category=Category.COMMUNICATION,
            )
            recorder.free(block)
