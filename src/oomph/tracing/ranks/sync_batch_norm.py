"""SyncBatchNorm: its operators exist for CUDA only, and torch has no fake kernels for them.

Shapes and types as in aten/src/ATen/native/cuda/Normalization.cu: statistics in the type that sums are made in
(float32 for half precision), one value per channel.
"""

from __future__ import annotations

from typing import Any

from oomph.tracing.recorder.recorder import Recorder


def install(recorder: Recorder) -> None:
    """Gives FakeTensorMode the kernels that it lacks, until the trace ends."""
    import torch
    from torch._subclasses.fake_impls import op_implementations_dict as known

    aten = torch.ops.aten
    kernels = {
        aten.batch_norm_stats.default: _stats,
        aten.batch_norm_gather_stats_with_counts.default: _gather,
        aten.batch_norm_elemt.default: _like_first,
        aten.batch_norm_backward_reduce.default: _reduce,
        aten.batch_norm_backward_elemt.default: _like_first,
    }
    for operator, kernel in kernels.items():
        if operator not in known and not torch._C._dispatch_has_kernel_for_dispatch_key(  # noqa: SLF001 - the only way to ask
            operator.name(), "Meta"
        ):
            known[operator] = kernel
            recorder.patches.when_undone(lambda operator=operator: known.pop(operator, None))  # type: ignore[misc]


def _sums(tensor: Any) -> Any:
    import torch

    return torch.float32 if tensor.dtype in (torch.float16, torch.bfloat16) else tensor.dtype


def _stats(mode: Any, _operator: Any, tensor: Any, _eps: float) -> tuple[Any, Any]:
    """Mean and inverse standard deviation of each channel."""
    with mode:
        mean = tensor.new_empty((tensor.shape[1],), dtype=_sums(tensor))
        return mean, mean.new_empty(mean.shape)


def _gather(mode: Any, _operator: Any, tensor: Any, mean: Any, *_rest: Any, **_named: Any) -> tuple[Any, Any]:
    """The same over all ranks."""
    with mode:
        return mean.new_empty((tensor.shape[1],)), mean.new_empty((tensor.shape[1],))


def _like_first(mode: Any, _operator: Any, tensor: Any, *_rest: Any, **_named: Any) -> Any:
    """A result like the first argument."""
    import torch

    with mode:
        return torch.empty_like(tensor)


def _reduce(
    mode: Any,
    _operator: Any,
    gradient: Any,
    _tensor: Any,
    mean: Any,
    _deviation: Any,
    weight: Any,
    of_input: bool,
    of_weight: bool,
    of_bias: bool,
) -> tuple[Any, ...]:
    """Two sums for the gradient of the input, and the gradients of weight and bias."""
    shape = (gradient.shape[1],)
    kind = weight if weight is not None else mean
    with mode:
        sums = [mean.new_empty(shape) if of_input else None for _ in range(2)]
        return *sums, *(kind.new_empty(shape) if wanted else None for wanted in (of_weight, of_bias))
