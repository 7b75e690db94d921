"""`torch.nn.init.trunc_normal_`: in place up to torch 2.11, from 2.12 on values are drawn again as long as any lies
outside, through masks and copies of the parameter's size.

How often is chance; taken is what is to be expected: as often as it takes until less than one value in all lies
outside. Evidence: real snapshots of torch 2.6 to 2.10 show no allocation inside it; torch/nn/init.py of 2.8.0, 2.9.0
and 2.11.0 (in place), 2.12.0 and 2.13.0 (drawn again).
"""

from __future__ import annotations

import math
from typing import Any

from oomph.tracing.recorder.recorder import Recorder

#: The first version that draws again.
_AGAIN = (2, 12)
#: Where less than this part of a normal distribution lies inside, torch draws from a uniform one.
_LEAST_INSIDE = 0.3


def install(recorder: Recorder) -> None:
    """Fills a parameter on the GPU as the version would that the trace speaks for."""
    import torch

    again = recorder.settings.torch >= _AGAIN

    def fill(
        original: Any,
        tensor: Any,
        mean: float = 0.0,
        std: float = 1.0,
        a: float = -2.0,
        b: float = 2.0,
        **more: Any,
    ) -> Any:
        if not again:
            # The values do not matter on fake tensors; what was written in place stays in place.
            with torch.no_grad():
                return tensor.uniform_()
        rounds = redraws(tensor.numel(), mean, std, a, b)
        if rounds is None or not tensor.is_cuda:
            return original(tensor, mean, std, a, b, **more)
        with torch.no_grad():
            return _drawn_again(tensor, rounds)

    recorder.patches.wrap(torch.nn.init, "trunc_normal_", fill)


def redraws(elements: int, mean: float, std: float, a: float, b: float) -> int | None:
    """How often values are to be expected to be drawn again; None where torch does not draw from a normal
    distribution, or refuses."""
    if not std > 0 or not b > a:
        return None
    outside = 1 - (_below((b - mean) / std) - _below((a - mean) / std))
    if outside >= 1 - _LEAST_INSIDE:
        return None
    if elements * outside < 1:
        return 0
    return math.ceil(math.log(elements) / -math.log(outside)) - 1


def _below(value: float) -> float:
    """The part of a standard normal distribution below a value."""
    return (1 + math.erf(value / math.sqrt(2))) / 2


def _drawn_again(tensor: Any, rounds: int) -> Any:
    """What the loop does to memory, with this many rounds after the first draw."""
    import torch

    values = tensor.normal_()
    outside = (values < 0) | (values > 0)
    for _ in range(rounds):
        values = torch.where(outside, torch.empty_like(values).normal_(), values)
        outside = (values < 0) | (values > 0)
    return tensor if values is tensor else tensor.copy_(values)
