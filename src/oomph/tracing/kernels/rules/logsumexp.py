"""logsumexp keeps the largest elements and all exponentials."""

from __future__ import annotations

from oomph.tracing.kernels.arguments import argument, bytes_of, numel
from oomph.tracing.kernels.rule import Call, Effect, Give, Output, Take


class LogSumExp:
    """The maximum of every row, whether that is finite, and the exponentials of the whole input."""

    name = "logsumexp"
    operators = ("aten.logsumexp",)
    evidence = "aten/src/ATen/native/ReduceOps.cpp (logsumexp_out_impl); the CPU runs the same composite"

    def effect(self, call: Call) -> Effect | None:
        """Before the result."""
        tensor = call.args[0]
        dims = argument(call, 1, "dim")
        dims = (dims,) if isinstance(dims, int) else tuple(dims or range(tensor.dim()))
        if not numel(tensor.shape) or not tensor.dtype.is_floating_point:
            return None
        reduced = {dim % max(tensor.dim(), 1) for dim in dims}
        rows = numel(size for dim, size in enumerate(tensor.shape) if dim not in reduced)
        row_bytes = rows * int(tensor.dtype.itemsize)
        return Effect(
            (
                Take("largest", row_bytes),
                Take("absolute", row_bytes),
                Take("infinite", rows),
                Give("absolute"),
                Give("infinite"),
                Take("exponentials", bytes_of(tensor)),
                Output(),
            )
        )


RULE = LogSumExp()
