"""Dropout makes its mask before its output."""

from __future__ import annotations

from oomph.tracing.kernels.rule import Call, Effect, Output


class NativeDropout:
    """The mask of booleans (the second result) comes first."""

    name = "native_dropout"
    operators = ("aten.native_dropout.default",)
    evidence = "aten/src/ATen/native/cuda/Dropout.cu (dropout_cuda); seen in a real snapshot of torch 2.1"

    def effect(self, call: Call) -> Effect | None:
        """The order of the results."""
        del call
        return Effect((Output(1), Output(0)))


RULE = NativeDropout()
