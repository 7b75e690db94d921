"""Group norm: factors per sample and channel."""

from __future__ import annotations

from typing import Any

from oomph.tracing.kernels.arguments import argument, is_tensor, numel, opmath_bytes
from oomph.tracing.kernels.rule import Call, Effect, Give, Output, Step, Take


class GroupNorm:
    """Forward: a scale and a shift for every sample and channel, unless there is neither weight nor bias. Backward: two
    sums for each, with images in channels-last format a table per row first, then factors per group and channel."""

    name = "group_norm"
    operators = ("aten.native_group_norm", "aten.native_group_norm_backward")
    evidence = (
        "aten/src/ATen/native/cuda/group_norm_kernel.cu (GroupNormKernelImplInternal, "
        "GroupNormBackwardKernelImplInternal)"
    )

    def effect(self, call: Call) -> Effect | None:
        """After the results."""
        backward = "backward" in str(call.op)
        tensor = call.args[1] if backward else call.args[0]
        if not numel(tensor.shape):
            return None
        first = 5 if backward else 3
        samples, channels, pixels, groups = (int(argument(call, first + at, "")) for at in range(4))
        itemsize = opmath_bytes(tensor)
        factors = samples * channels * itemsize
        if not backward:
            if pixels == 1 or not any(is_tensor(call.args[position]) for position in (1, 2)):
                return None
            return Effect((Output(), Take("scale", factors), Take("shift", factors)))
        steps: list[Step] = [Output(), Take("products", factors), Take("sums", factors)]
        if pixels == 1:
            return Effect(tuple(steps))
        if _channels_last(tensor):
            steps += [Take("rows", factors * 2 * _closest_factor(pixels)), Give("rows")]
        if argument(call, 9, "output_mask", (True,))[0]:
            per_group = samples * groups * itemsize
            steps += [Take("group_factors", per_group), Take("group_shifts", per_group)]
            if is_tensor(call.args[4]):
                steps.append(Take("factors", factors))
        return Effect(tuple(steps))


def _channels_last(tensor: Any) -> bool:
    return bool(tensor.dim() in (4, 5) and int(tensor.stride()[1]) == 1 and not tensor.is_contiguous())


def _closest_factor(number: int) -> int:
    """The largest factor that is not above the square root."""
    factor = int(number**0.5)
    while number % factor:
        factor -= 1
    return factor


RULE = GroupNorm()
