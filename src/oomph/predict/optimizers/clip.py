"""Clipping of gradient norms and the gradient scaler: small, but there before the step.

Sources: torch/nn/utils/clip_grad.py (`_get_total_norm`, `_clip_grads_with_norm_`),
aten/src/ATen/native/cuda/ForeachReduceOp.cu (`foreach_tensor_norm_cuda`: as many partial norms for every tensor as the
longest has, one per 65,536 elements), torch/amp/grad_scaler.py (`_scale`, `_growth_tracker`, `unscale_`).
"""

from __future__ import annotations

from functools import lru_cache

from oomph.predict.optimizers.script import SCALAR, STATE, TEMPORARY, Script, by_dtype, trainable
from oomph.predict.sharding.base import UnitParameter
from oomph.predict.sink import Sink, Template

NORMS = "norms of gradients"
SCALER = "gradient scaler"
_CHUNK = 65_536


def clip_grad_norm(sink: Sink, parameters: tuple[UnitParameter, ...]) -> None:
    """`torch.nn.utils.clip_grad_norm_` over the gradients of the parameters that train; the total norm, which it
    returns, is freed as well."""
    template = _clipping(parameters)
    if template.events:
        sink.play(template)


@lru_cache(maxsize=64)
def _clipping(parameters: tuple[UnitParameter, ...]) -> Template:
    script, training = Script(), trainable(parameters)
    norms = []
    for group in by_dtype(training):
        longest = max(-(-each.numel // _CHUNK) for each in group)
        parts = script.alloc(4 * len(group) * longest, TEMPORARY, NORMS)
        norms += script.each((min(SCALAR, each.grad_bytes) for each in group), TEMPORARY, NORMS)
        script.free([parts])
    if training:
        stacked = script.alloc(SCALAR * len(training), TEMPORARY, NORMS)
        total = script.alloc(SCALAR, TEMPORARY, NORMS)
        script.free([stacked, *norms])
        coefficient = script.each([SCALAR] * 3, TEMPORARY, NORMS)
        script.free([*coefficient, total])
    return script.template()


def grad_scaler(sink: Sink) -> None:
    """`torch.amp.GradScaler`: its scale and growth tracker, which stay, are made at the first `scale(loss)`."""
    for _ in range(2):
        sink.alloc(SCALAR, STATE, SCALER)


def unscale(sink: Sink) -> None:
    """`GradScaler.unscale_`: the inverse of the scale (by way of float64) and what found infinities; gradients are
    scaled in place."""
    made = [sink.alloc(SCALAR, TEMPORARY, SCALER) for _ in range(4)]
    for handle in made:
        sink.free(handle)
