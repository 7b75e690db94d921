"""Comparing whole tensors."""

from __future__ import annotations

from oomph.tracing.kernels.arguments import numel
from oomph.tracing.kernels.rule import Call, Effect, Take


class Equal:
    """A boolean for every element, and one for all."""

    name = "equal"
    operators = ("aten.equal",)
    evidence = "aten/src/ATen/native/cuda/Equal.cpp (cuda_equal: at::eq(...).all())"

    def effect(self, call: Call) -> Effect | None:
        """The answer goes to the CPU."""
        first, second = call.args[0], call.args[1]
        if tuple(first.shape) != tuple(second.shape) or not numel(first.shape):
            return None
        return Effect((Take("equal", numel(first.shape)), Take("all", 1)))


RULE = Equal()
