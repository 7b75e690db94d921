"""Indexing: a mask is turned into positions first, and indices of other types or on the CPU into 64 bits on the GPU."""

from __future__ import annotations

from oomph.tracing.kernels.arguments import is_tensor, kind, numel
from oomph.tracing.kernels.rule import Call, Effect, Output, Step, Take


class MaskedIndices:
    """How many positions a mask selects is known to the GPU only: at most all, with 8 bytes per dimension each."""

    name = "masked_indices"
    operators = (
        "aten.index",
        "aten._unsafe_index",
        "aten.masked_select",
        "aten.masked_scatter",
        "aten.masked_scatter_",
    )
    evidence = (
        "aten/src/ATen/native/IndexingUtils.h (expandTensors), cuda/IndexKernel.cpp (masked_select_out_cuda_impl, "
        "masked_scatter__cuda); seen in real snapshots (int64 copies of indices)"
    )

    def effect(self, call: Call) -> Effect | None:
        """The positions live as long as the kernel runs."""
        if "masked_scatter" in str(call.op):
            # Where each element comes from: running counts of the whole tensor, whatever the mask holds.
            return Effect((Output(), Take("prefix_sum", 8 * numel(call.args[0].shape))))
        if "masked" in str(call.op):
            mask = call.args[1]
            return Effect((), uncertain_bytes=8 * max(1, mask.dim()) * numel(mask.shape))
        indices = [index for index in call.args[1] if is_tensor(index)]
        doubt = 0
        steps: list[Step] = []
        for number, index in enumerate(indices):
            if kind(index) in ("bool", "uint8"):
                doubt += 8 * max(1, index.dim()) * numel(index.shape)
            elif index.device.type == "cpu" or kind(index) != "int64":
                steps.append(Take(f"index{number}", 8 * numel(index.shape)))
        if not steps and not doubt:
            return None
        return Effect((*steps, Output()), uncertain_bytes=doubt)


RULE = MaskedIndices()
