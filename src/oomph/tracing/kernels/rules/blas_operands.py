"""Operands that cuBLAS cannot read as they lie are copied."""

from __future__ import annotations

from typing import Any

from oomph.tracing.kernels.arguments import bytes_of, numel
from oomph.tracing.kernels.rule import Call, Effect, Output, Take


class BlasOperands:
    """A matrix whose rows and columns are both strided, or a batch of an expanded one, is cloned for the call."""

    name = "blas_operands"
    operators = (
        "aten.mm",
        "aten.addmm",
        "aten._addmm_activation",
        "aten.bmm",
        "aten.baddbmm",
        "aten.mv",
        "aten.addmv",
    )
    evidence = (
        "aten/src/ATen/native/cuda/Blas.cpp (prepare_matrix_for_cublas, prepare_batch_matrix_for_cublas, "
        "addmv_out_cuda_impl); seen in a real snapshot of torch 2.7 (clone in bmm)"
    )

    def effect(self, call: Call) -> Effect | None:
        """The copies, after the result; the second operand first, as a row-major result makes it the left one."""
        first, second = [value for value in call.args if hasattr(value, "shape")][-2:]
        if first.is_contiguous() and second.is_contiguous() and 0 not in (*first.stride(), *second.stride()):
            return None
        if not numel(first.shape) or not numel(second.shape):
            return None
        if second.dim() == 1:
            copied = [matrix for matrix in (first,) if not _readable(matrix)]
        elif first.dim() == 2:
            copied = [matrix for matrix in (second, first) if not _readable(matrix)]
        else:
            copied = _batched(first, second)
        if not copied:
            return None
        return Effect(
            (Output(), *(Take(f"operand{number}", bytes_of(it)) for number, it in enumerate(copied)))
        )


def _readable(matrix: Any) -> bool:
    """Whether one of the two dimensions is contiguous and the other's stride spans it."""
    (rows, columns), (down, across) = matrix.shape, matrix.stride()
    if sorted([(down, rows), (across, columns)])[0][0] == 1 and _dense(matrix):
        return True
    return bool((down == 1 and across >= max(1, rows)) or (across == 1 and down >= max(1, columns)))


def _dense(matrix: Any) -> bool:
    expected = 1
    for stride, size in sorted(zip(matrix.stride(), matrix.shape, strict=True)):
        if size != 1:
            if stride != expected:
                return False
            expected *= size
    return True


def _batched(first: Any, second: Any) -> list[Any]:
    rows, columns, inner = int(first.shape[1]), int(second.shape[2]), int(first.shape[2])
    if columns == 1:  # a result of one column counts as column-major
        pairs = [(first, False, rows, inner), (second, False, inner, columns)]
    else:
        pairs = [(second, True, columns, inner), (first, True, inner, rows)]
    return [
        tensor
        for tensor, transposed, high, wide in pairs
        if not _batch_readable(tensor, transposed, high, wide)
    ]


def _batch_readable(tensor: Any, transposed: bool, high: int, wide: int) -> bool:
    fast, leading = (2, 1) if transposed else (1, 2)
    strides = tensor.stride()
    if strides[fast] == 1 and strides[leading] >= max(1, high):
        return True
    if strides[leading] == 1 and strides[fast] >= max(1, wide):
        return True
    return bool(tensor.is_contiguous() and strides[1] != 0 and strides[2] != 0)


RULE = BlasOperands()
