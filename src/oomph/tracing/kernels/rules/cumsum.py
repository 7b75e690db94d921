"""Running sums: a copy in the result's type, and CUB's storage for a single row."""

from __future__ import annotations

from oomph.tracing.kernels import cub
from oomph.tracing.kernels.arguments import argument, kind, numel
from oomph.tracing.kernels.rule import Call, Effect, Give, Output, Step, Take


class Cumsum:
    """Integers are summed in int64, so others are copied first; one contiguous row goes through CUB."""

    name = "cumsum"
    operators = ("aten.cumsum", "aten.cumprod")
    evidence = (
        "aten/src/ATen/native/ReduceOps.cpp (impl_func_cum_ops), cuda/ScanUtils.cuh (scan_dim); seen in a real "
        "snapshot of torch 2.8 (1023 bytes)"
    )

    def effect(self, call: Call) -> Effect | None:
        """After the result."""
        tensor = call.args[0]
        count = numel(tensor.shape)
        wanted = kind_of(argument(call, 2, "dtype"))
        integral = not (tensor.dtype.is_floating_point or tensor.dtype.is_complex)
        result = wanted or ("int64" if integral else kind(tensor))
        if not count or not tensor.dim():
            return None
        itemsize = 8 if result in ("int64", "float64") else 4 if result in ("int32", "float32") else 2
        steps: list[Step] = [Output()]
        copied = result != kind(tensor)
        if copied:
            steps.append(Take("cast", count * itemsize))
        dim = int(argument(call, 1, "dim", 0))
        if int(tensor.shape[dim]) == count and (copied or tensor.is_contiguous()):
            steps += [Take("scan", cub.scan(count, itemsize)), Give("scan")]
        return Effect(tuple(steps)) if len(steps) > 1 else None


def kind_of(dtype: object) -> str:
    """A dtype's short name; empty for None."""
    return "" if dtype is None else str(dtype).removeprefix("torch.")


RULE = Cumsum()
