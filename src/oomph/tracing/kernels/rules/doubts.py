"""Operators whose libraries or data decide what they need: bounds only."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from oomph.tracing.kernels.arguments import bytes_of, is_tensor, numel
from oomph.tracing.kernels.rule import Call, Effect


@dataclass(frozen=True)
class Doubt:
    """`bound` gives the most bytes that one call may take beside its results."""

    name: str
    operators: tuple[str, ...]
    evidence: str
    bound: Callable[[Call], int]

    def effect(self, call: Call) -> Effect | None:
        """Nothing for certain."""
        bytes_ = self.bound(call)
        return Effect((), uncertain_bytes=bytes_) if bytes_ else None


def _tensors(values: Iterable[Any]) -> list[Any]:
    found: list[Any] = []
    for value in values:
        if is_tensor(value):
            found.append(value)
        elif isinstance(value, (list, tuple)):
            found += [item for item in value if is_tensor(item)]
    return found


def _inputs(times: int) -> Callable[[Call], int]:
    return lambda call: times * sum(bytes_of(tensor) for tensor in _tensors(call.args))


def _indices(call: Call) -> int:
    """Sorting n elements with their positions: keys, positions, both sorted, and both once more for CUB."""
    tensor = call.args[0]
    return numel(tensor.shape) * (3 * int(tensor.dtype.itemsize) + 5 * 8) + 65_536


def _topk(call: Call) -> int:
    """512 bytes of digit counts per thousand elements, and the k largest with their positions twice."""
    tensor = call.args[0]
    rows = numel(tensor.shape) // max(1, int(tensor.shape[-1]) if tensor.dim() else 1)
    return numel(tensor.shape) + rows * (64 + 32 * int(call.args[1])) + 4096


def _layer(call: Call) -> int:
    """Query, key, value, scores of every head twice, and twice the widest layer."""
    source = call.args[0]
    tokens, width = numel(source.shape[:-1]), int(source.shape[-1])
    heads = int(call.args[4 if "native_multi_head" in str(call.op) else 2])
    weights = [tensor for tensor in _tensors(call.args[1:]) if tensor.dim() == 2]
    widest = max([width, *(int(weight.shape[0]) for weight in weights)])
    rows = int(source.shape[1]) if source.dim() == 3 else tokens
    return int(source.dtype.itemsize) * tokens * (3 * width + 2 * widest + 2 * heads * rows)


def _isin(call: Call) -> int:
    """A boolean for every pair while there are few, else some arrays of both together."""
    first, second = (numel(value.shape) if is_tensor(value) else 1 for value in call.args[:2])
    return first * min(second, 128) + 80 * (first + second) + 4096


def _distances(call: Call) -> int:
    """The larger of two sets of points as often as the other has batches: what broadcasting makes of them."""
    points = _tensors(call.args[:2])
    if len(points) < 2:
        return 0
    batches = [max(1, numel(tensor.shape[:-2])) for tensor in points]
    return max(batches) * sum(
        bytes_of(tensor) // batch for tensor, batch in zip(points, batches, strict=True)
    )


def _permutation(call: Call) -> int:
    return 64 * int(call.args[0]) + 65_536


RULES = [
    Doubt(
        "topk",
        ("aten.topk", "aten.kthvalue", "aten.median", "aten.mode"),
        "aten/src/ATen/native/cuda/TensorTopK.cu (mbtopk::launch); seen in a real snapshot of torch 2.8 (16,384 bytes "
        "of counts for 32,555 elements)",
        lambda call: _topk(call) if str(call.op).startswith("aten.topk") else _indices(call),
    ),
    Doubt(
        "unique",
        (
            "aten._unique",
            "aten._unique2",
            "aten.unique_dim",
            "aten.unique_consecutive",
            "aten.embedding_renorm_",
        ),
        "aten/src/ATen/native/cuda/Unique.cu, UniqueCub.cu (sort, positions, inverse, counts)",
        _indices,
    ),
    Doubt(
        "isin",
        ("aten.isin",),
        "aten/src/ATen/native/TensorCompare.cpp (isin: every pair compared, or both sorted together)",
        _isin,
    ),
    Doubt(
        "randperm",
        ("aten.randperm",),
        "aten/src/ATen/native/cuda/Randperm.cu (random keys, sorted with the positions)",
        _permutation,
    ),
    Doubt(
        "trilinear",
        ("aten._trilinear",),
        "aten/src/ATen/native/Linear.cpp (_trilinear: one slice after the other; sumproduct_pair: both operands of a "
        "slice and their product)",
        _inputs(2),
    ),
    Doubt(
        "cdist_forward",
        ("aten._cdist_forward", "aten._pdist_forward"),
        "aten/src/ATen/native/Distance.cpp (cdist_impl: broadcast inputs are copied; euclidean distances of many rows "
        "by a matrix product)",
        lambda call: _inputs(3)(call) + _distances(call),
    ),
    Doubt(
        "transformer_layer",
        ("aten._transformer_encoder_layer_fwd", "aten._native_multi_head_attention"),
        "aten/src/ATen/native/transformers/transformer.cpp, cuda/attention.cu (one operator for a whole layer: "
        "projections, scores and the wide layer are its own)",
        _layer,
    ),
    Doubt(
        "scatter_reduce",
        ("aten.scatter_reduce", "aten.scatter_reduce_"),
        "aten/src/ATen/native/TensorAdvancedIndexing.cpp (scatter_reduce_two: counts for a mean)",
        _inputs(3),
    ),
    Doubt(
        "soft_margin_loss",
        ("aten.soft_margin_loss", "aten.soft_margin_loss_backward"),
        "aten/src/ATen/native/Loss.cpp (soft_margin_loss_out: one operator after the other)",
        _inputs(2),
    ),
    Doubt(
        "cudnn_ctc_loss",
        ("aten._cudnn_ctc_loss",),
        "aten/src/ATen/native/cudnn/LossCTC.cpp (workspace)",
        _inputs(2),
    ),
    Doubt(
        "batch_norm",
        (
            "aten.native_batch_norm",
            "aten.cudnn_batch_norm",
            "aten.native_batch_norm_backward",
            "aten.cudnn_batch_norm_backward",
            "aten._native_batch_norm_legit",
            "aten._batch_norm_with_update",
            "aten._batch_norm_no_update",
            "aten.batch_norm_backward",
        ),
        "aten/src/ATen/native/cudnn/BatchNorm.cpp (workspace and reserve), cuda/Normalization.cuh (staging buffers); "
        "none seen in a real snapshot of torch 2.5",
        _inputs(1),
    ),
    Doubt(
        "linear_algebra",
        (
            "aten.linalg_inv_ex",
            "aten.linalg_cholesky_ex",
            "aten.linalg_lu_factor_ex",
            "aten.linalg_qr",
            "aten._linalg_eigh",
            "aten._linalg_svd",
            "aten._linalg_solve_ex",
            "aten._linalg_det",
            "aten._linalg_slogdet",
            "aten.linalg_lstsq",
            "aten.linalg_householder_product",
            "aten.triangular_solve",
            "aten.linalg_solve_triangular",
            "aten.cholesky_solve",
            "aten.linalg_lu_solve",
            "aten.linalg_pinv",
            "aten.linalg_matrix_exp",
        ),
        "aten/src/ATen/native/cuda/linalg/BatchLinearAlgebraLib.cpp (cuSOLVER and MAGMA workspaces)",
        lambda call: _inputs(8)(call) + 2**20,
    ),
    Doubt(
        "fft",
        ("aten._fft_r2c", "aten._fft_c2r", "aten._fft_c2c"),
        "aten/src/ATen/native/cuda/SpectralOps.cpp (clones of the input, cuFFT's workspace per plan)",
        _inputs(4),
    ),
]
