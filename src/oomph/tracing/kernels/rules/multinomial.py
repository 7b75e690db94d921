"""Sampling from probabilities."""

from __future__ import annotations

from oomph.tracing.kernels.arguments import argument, bytes_of, numel
from oomph.tracing.kernels.rule import Call, Effect, Output, Take


class Multinomial:
    """One sample, or without replacement: random numbers for every probability, then the largest quotient. Several
    with replacement: three copies of the probabilities after the result."""

    name = "multinomial"
    operators = ("aten.multinomial",)
    evidence = (
        "aten/src/ATen/native/Distributions.cpp (multinomial_out), cuda/MultinomialKernel.cu "
        "(multinomial_with_replacement_kernel_impl)"
    )

    def effect(self, call: Call) -> Effect | None:
        """Before or after the samples."""
        tensor, samples = call.args[0], int(call.args[1])
        size = bytes_of(tensor)
        if not numel(tensor.shape):
            return None
        if not argument(call, 2, "replacement", False) or samples == 1:
            return Effect((Take("random", size), Output()))
        copies = (Take("original", size), Take("normalised", size), Take("running", size))
        return Effect((Output(), *copies))


RULE = Multinomial()
