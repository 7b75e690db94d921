"""Memory-efficient attention: float32 sums for wide heads, and for the gradients."""

from __future__ import annotations

from oomph.memory.kernels.attention import efficient_workspace_bytes
from oomph.tracing.kernels.arguments import argument, bytes_of, low_precision, numel
from oomph.tracing.kernels.rule import Call, Effect, Give, Output, Step, Take


class SdpaEfficient:
    """The output, then the log-sum-exp if a backward pass will follow; the generator's state is on the CPU. Heads wider
    than 128 in half precision are summed in a float32 buffer."""

    name = "sdpa_efficient"
    operators = ("aten._scaled_dot_product_efficient_attention",)
    evidence = (
        "aten/src/ATen/native/transformers/cuda/attention.cu (_efficient_attention_forward), "
        "mem_eff_attention/kernel_forward.h (kNeedsOutputAccumulatorBuffer); seen in real snapshots of torch 2.1, 2.8"
    )

    def effect(self, call: Call) -> Effect | None:
        """Around the output."""
        query, value = call.args[0], call.args[2]
        steps: list[Step] = [Output(0), Output(1)]
        if low_precision(query) and max(int(query.shape[-1]), int(value.shape[-1])) > 128:
            steps.append(Take("sums", 4 * numel(query.shape[:3]) * int(value.shape[-1])))
        return Effect((*steps, Output(2, bytes=0), Output(3, bytes=0)))


class SdpaEfficientBackward:
    """The gradients, a number per row (in float32 from the product of gradient and output, row by row), and the query's
    gradient in float32 in tiles; keys and values too where a tile does not hold a head."""

    name = "sdpa_efficient_backward"
    operators = ("aten._scaled_dot_product_efficient_attention_backward",)
    evidence = (
        "aten/src/ATen/native/transformers/cuda/attention_backward.cu (_efficient_attention_backward), "
        "mem_eff_attention/kernel_backward.h (workspace_size, kKernelComputesDelta), kernels/cutlassB.h (tiles); seen "
        "in a real snapshot of torch 2.1"
    )

    def effect(self, call: Call) -> Effect | None:
        """After the gradients."""
        grad, query, key, value = call.args[:4]
        batch, heads, rows, size = (int(number) for number in query.shape)
        columns, wide, half = int(key.shape[2]), int(value.shape[-1]), low_precision(query)
        row_sums = 4 * batch * heads * rows
        if not row_sums:
            return None
        steps: list[Step] = [Output()]
        if half:
            steps.append(Take("row_sums", row_sums))
        else:
            steps += [
                Take("products", bytes_of(grad)),
                Take("strided_sums", row_sums),
                Take("row_sums", row_sums),
                Give("strided_sums"),
                Give("products"),
            ]
        dropout = float(argument(call, 9, "dropout_p", 0.0)) > 0
        capability = call.gpu.capability
        size_bytes = efficient_workspace_bytes(
            batch * heads, rows, columns, size, wide, half, capability, dropout
        )
        steps.append(Take("workspace", size_bytes))
        return Effect(tuple(steps))


RULES = [SdpaEfficient(), SdpaEfficientBackward()]
