"""cuDNN's attention: its workspace is known to cuDNN only."""

from __future__ import annotations

from oomph.tracing.kernels.arguments import bytes_of, numel
from oomph.tracing.kernels.rule import Call, Effect, Output


class SdpaCudnn:
    """The output, then the log-sum-exp if a backward pass will follow. Backward keeps the query's gradient in float32
    and what it likes besides: bounded by float32 copies of the three gradients."""

    name = "sdpa_cudnn"
    operators = (
        "aten._scaled_dot_product_cudnn_attention",
        "aten._scaled_dot_product_cudnn_attention_backward",
    )
    evidence = (
        "aten/src/ATen/native/cudnn/MHA.cpp (run_cudnn_SDP_fprop, run_cudnn_SDP_bprop: graph workspace)"
    )

    def effect(self, call: Call) -> Effect | None:
        """The order of the results, and the doubt."""
        if "backward" in str(call.op):
            query, key, value = call.args[1:4]
            return Effect((), uncertain_bytes=4 * sum(numel(tensor.shape) for tensor in (query, key, value)))
        query = call.args[0]
        saved = bool(call.args[4] if len(call.args) > 4 else call.kwargs.get("compute_log_sumexp", True))
        rows = Output(1) if saved else Output(1, bytes=0)
        states = (Output(6, bytes=0), Output(7, bytes=0))
        return Effect((Output(0), rows, *states), uncertain_bytes=bytes_of(query))


RULE = SdpaCudnn()
