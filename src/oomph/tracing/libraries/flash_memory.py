"""What flash-attn 2 allocates: csrc/flash_attn/flash_api.cpp, mha_fwd, mha_varlen_fwd, mha_bwd and mha_varlen_bwd.

Sizes of a batch of b sequences of s rows (in a variable-length call: t rows in all), h heads of d (k of them for keys
and values): forward makes the result, b * h * s (h * t) float32, and a random state of two int64. Backward makes the
three gradients, then 32-bit sums of b * h * ceil128(s) and b * h * ceil128(s) * ceil32(d) (variable length: t + 128 b
rows; d above 128: ceil64; several of them in a deterministic one), and keys and values of all h heads where k < h,
which are summed afterwards.
"""

from __future__ import annotations

from functools import cache
from typing import Any


def attention(q: Any, k: Any, v: Any, sequences: int, deterministic: bool) -> Any:
    """The result of flash attention; `sequences` is their number in a variable-length call, 0 in a plain one."""
    return _function().apply(q, k, v, sequences, deterministic)


@cache
def _function() -> Any:
    import torch

    class Flash(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, q: Any, k: Any, v: Any, sequences: int, deterministic: bool) -> Any:
            q, k, v = (_dense(one) for one in (q, k, v))
            width = -q.shape[-1] % 8
            if width:
                q, k, v = (torch.nn.functional.pad(one, (0, width)) for one in (q, k, v))
            out = torch.empty_like(q)
            rows = (q.shape[1], q.shape[0]) if sequences else (q.shape[0], q.shape[2], q.shape[1])
            sums = torch.empty(rows, dtype=torch.float32, device=q.device)
            state = torch.empty(2, dtype=torch.int64, device=q.device)
            ctx.save_for_backward(q, k, v, out, sums, state)
            ctx.sequences, ctx.deterministic, ctx.width = sequences, deterministic, width
            return out[..., : out.shape[-1] - width] if width else out

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            q, k, v, _out, _sums, _state = ctx.saved_tensors
            dq, dk, dv = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
            grad = _dense(grad)
            if ctx.width:
                grad = torch.nn.functional.pad(grad, (0, ctx.width))
            heads, step = q.shape[-2], 32 if q.shape[-1] <= 128 else 64
            size = -(-q.shape[-1] // step) * step
            if ctx.sequences:
                rows: tuple[int, ...] = (q.shape[0] + 128 * ctx.sequences,)
                sums = torch.empty((heads, *rows), dtype=torch.float32, device=q.device)
            else:
                rows = (q.shape[0], -(-q.shape[1] // 128) * 128)
                sums = torch.empty((rows[0], heads, rows[1]), dtype=torch.float32, device=q.device)
            if ctx.deterministic:
                copies = _copies(q, heads * (ctx.sequences or q.shape[0]))
                total = torch.zeros((copies, *rows, heads, size), dtype=torch.float32, device=q.device)
            else:
                total = torch.empty((*rows, heads, size), dtype=torch.float32, device=q.device)
            if k.shape[-2] != heads:
                shape = (*k.shape[:-2], heads, k.shape[-1])
                wide = [torch.empty(shape, dtype=k.dtype, device=k.device) for _ in range(2)]
                for small, large in zip((dk, dv), wide, strict=True):
                    groups = large.view(*k.shape[:-1], heads // k.shape[-2], k.shape[-1])
                    torch.sum(groups, -2, out=small)
            del sums, total
            if ctx.width:
                dq, dk, dv = (one[..., : one.shape[-1] - ctx.width] for one in (dq, dk, dv))
            return dq, dk, dv, None, None

    return Flash


def _copies(q: Any, blocks: int) -> int:
    """How many sums a deterministic backward pass keeps apart: one for each wave of blocks on the device."""
    import torch

    multiprocessors = int(torch.cuda.get_device_properties(q.device).multi_processor_count)
    return (multiprocessors + blocks - 1) // blocks


def _dense(tensor: Any) -> Any:
    return tensor if tensor.stride(-1) == 1 else tensor.contiguous()
