"""Where elements are not zero: they are counted before the result can be made."""

from __future__ import annotations

from oomph.tracing.kernels import cub
from oomph.tracing.kernels.arguments import bytes_of, numel
from oomph.tracing.kernels.rule import Call, Effect, Give, Output, Step, Take

_MOST = 2**31 - 1


class Nonzero:
    """A counter, CUB's storage for the sum, the result, and CUB's storage for the selection."""

    name = "nonzero"
    operators = ("aten.nonzero",)
    evidence = (
        "aten/src/ATen/native/cuda/Nonzero.cu (nonzero_cuda_out_impl); seen in a real snapshot of torch 2.8 (4 and "
        "17,663 bytes, the result, 767 bytes)"
    )

    def effect(self, call: Call) -> Effect | None:
        """Around the result."""
        tensor = call.args[0]
        count = numel(tensor.shape)
        steps: list[Step] = []
        if not tensor.is_contiguous():
            steps.append(Take("input", bytes_of(tensor)))
        parts = 1 if count < _MOST else -(-count // 2**30)
        count = min(count, 2**30) if parts > 1 else count
        steps.append(Take("counters", 4 * parts))
        for part in range(parts):
            steps += [Take(f"sum{part}", cub.reduce(count, call.gpu)), Give(f"sum{part}")]
        steps.append(Output())
        for part in range(parts if tensor.dim() else 0):
            steps += [Take(f"select{part}", cub.select(count)), Give(f"select{part}")]
        return Effect(tuple(steps))


RULE = Nonzero()
