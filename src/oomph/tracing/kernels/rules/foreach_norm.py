"""The norms of a list of tensors: a partial norm per 65,536 elements."""

from __future__ import annotations

from oomph.tracing.kernels.arguments import argument, div_up, low_precision, numel
from oomph.tracing.kernels.rule import Call, Effect, Output, Take

_CHUNK = 65_536


class ForeachNorm:
    """One array for all: as many parts for every tensor as the longest has."""

    name = "foreach_norm"
    operators = ("aten._foreach_norm",)
    evidence = "aten/src/ATen/native/cuda/ForeachReduceOp.cu (foreach_tensor_norm_cuda: output_per_tensor)"

    def effect(self, call: Call) -> Effect | None:
        """Before the norms."""
        tensors = list(call.args[0])
        if not tensors:
            return None
        wanted = argument(call, 2, "dtype")
        itemsize = int((wanted or tensors[0].dtype).itemsize)
        if wanted is None and low_precision(tensors[0]):
            itemsize = 4
        parts = max(div_up(numel(tensor.shape), _CHUNK) for tensor in tensors)
        return Effect((Take("parts", len(tensors) * parts * max(4, itemsize)), Output()))


RULE = ForeachNorm()
