"""Flash attention: split results when heads are few, and float32 sums for the gradient of the query."""

from __future__ import annotations

from oomph.memory.kernels.attention import flash_splits, round_up, rounded_head
from oomph.tracing.kernels.arguments import argument, bytes_of, div_up
from oomph.tracing.kernels.rule import Call, Effect, Output, Step, Take


class SdpaFlash:
    """The output, the log-sum-exp of every row, and from torch 2.7 on the generator's state on the GPU (before it is on
    the CPU). Without dropout and with too few blocks for the GPU, keys are split and partial results kept in float32.
    """

    name = "sdpa_flash"
    operators = ("aten._scaled_dot_product_flash_attention",)
    evidence = (
        "aten/src/ATen/native/transformers/cuda/flash_attn/flash_api.cpp (mha_fwd, set_params_splitkv, "
        "num_splits_heuristic); torch/_meta_registrations.py (seed and offset of 2.7)"
    )

    def effect(self, call: Call) -> Effect | None:
        """After the output and its log-sum-exp."""
        query, key = call.args[0], call.args[1]
        batch, heads, rows, size = (int(number) for number in query.shape)
        dropout = float(argument(call, 3, "dropout_p", 0.0))
        states = [Output(6), Output(7)] if call.torch >= (2, 7) else [Output(6, bytes=0), Output(7, bytes=0)]
        grouped_heads = int(key.shape[1])
        if rows == 1 and heads > grouped_heads and not dropout:
            rows, heads = heads // grouped_heads, grouped_heads
        steps: list[Step] = [Output(0), Output(1)]
        blocks, keys = batch * heads * div_up(rows, 64), int(key.shape[2])
        splits = 1
        if blocks and keys and not dropout:
            splits = flash_splits(blocks, keys, size, call.gpu.multiprocessors)
        if splits > 1:
            rowwise = splits * batch * heads * rows * 4
            steps += [Take("partial_sums", rowwise), Take("partials", rowwise * rounded_head(size))]
        return Effect((*steps, *states))


class SdpaFlashBackward:
    """The three gradients, a number per row, the query's gradient in float32, and with fewer key heads than query
    heads the gradients of keys and values for every query head. Strided gradients and outputs are copied first."""

    name = "sdpa_flash_backward"
    operators = ("aten._scaled_dot_product_flash_attention_backward",)
    evidence = (
        "aten/src/ATen/native/transformers/cuda/flash_attn/flash_api.cpp (mha_bwd), attention_backward.cu "
        "(_flash_attention_backward)"
    )

    def effect(self, call: Call) -> Effect | None:
        """Copies before the gradients, sums after them."""
        grad, query, key, _, out = call.args[:5]
        batch, heads, rows, size = (int(number) for number in query.shape)
        steps: list[Step] = [
            Take(name, bytes_of(tensor))
            for name, tensor in (("gradient", grad), ("output", out))
            if not tensor.transpose(1, 2).is_contiguous()
        ]
        rounded = round_up(rows, 128)
        steps += [
            Output(),
            Take("row_sums", batch * heads * rounded * 4),
            Take(
                "query_sums",
                self._copies(call, batch * heads) * batch * rounded * heads * rounded_head(size) * 4,
            ),
        ]
        if int(key.shape[1]) != heads:
            every = batch * int(key.shape[2]) * heads * size * int(key.dtype.itemsize)
            steps += [Take("key_gradients", every), Take("value_gradients", every)]
        return Effect(tuple(steps))

    def _copies(self, call: Call, blocks: int) -> int:
        """One sum, or one per part of the keys where results must not depend on the order of additions."""
        import torch

        if not torch.are_deterministic_algorithms_enabled():
            return 1
        return div_up(call.gpu.multiprocessors, blocks)


RULES = [SdpaFlash(), SdpaFlashBackward()]
