"""Distances of all pairs: their gradients have a buffer with a row for every pair."""

from __future__ import annotations

from typing import Any

from oomph.tracing.kernels.arguments import bytes_of, numel
from oomph.tracing.kernels.rule import Call, Effect, Give, Output, Step, Take


class PairwiseGradient:
    """Before the kernel runs one number of every pair and every feature, to be summed."""

    name = "pairwise_distance_backward"
    operators = ("aten._pdist_backward", "aten._cdist_backward")
    evidence = (
        "aten/src/ATen/native/cuda/DistanceKernel.cu (pdist_backward_kernel_impl, cdist_backward_kernel_impl), "
        "Distance.cpp (_cdist_backward: broadcast inputs are copied)"
    )

    def effect(self, call: Call) -> Effect | None:
        """The buffer, after the result."""
        grad, first = call.args[:2]
        element = int(first.dtype.itemsize)
        if "_pdist" in str(call.op):
            power, rows, features = call.args[2], int(first.shape[0]), int(first.shape[1])
            pairs = max(rows - 1, 0) * rows
            copies: list[Step] = []
        else:
            second, power, distances = call.args[2:5]
            features = int(first.shape[-1])
            pairs = numel(distances.shape)
            batch = numel(distances.shape[:-2])
            copies = _copies(
                [grad, distances], [(first, batch, distances.shape[-2]), (second, batch, distances.shape[-1])]
            )
        if not pairs or not features or not power:
            return Effect((*copies, Output())) if copies else None
        return Effect((*copies, Output(), Take("pairs", pairs * features * element)))


class EuclideanDistance:
    """One matrix product of the points with their squared lengths and ones beside them."""

    name = "euclidean_distance"
    operators = ("aten._euclidean_dist",)
    evidence = "aten/src/ATen/native/Distance.cpp (_euclidean_dist)"

    def effect(self, call: Call) -> Effect | None:
        """Operator after operator, before the result."""
        first, second = call.args[:2]
        steps: list[Step] = []
        for name, points in (("first", first), ("second", second)):
            length = _lengths(points)
            steps += [
                Take(f"{name} squared", bytes_of(points)),
                Take(f"{name} lengths", length),
                Give(f"{name} squared"),
                Take(f"{name} ones", length),
            ]
        steps += [
            Take("doubled", bytes_of(first)),
            Take("first matrix", bytes_of(first) + 2 * _lengths(first)),
            *(Give(name) for name in ("doubled", "first lengths", "first ones")),
            Take("second matrix", bytes_of(second) + 2 * _lengths(second)),
        ]
        return Effect((*steps, Output()))


def _lengths(points: Any) -> int:
    return numel(points.shape[:-1]) * int(points.dtype.itemsize)


def _copies(plain: list[Any], points: list[tuple[Any, int, int]]) -> list[Step]:
    """Contiguous copies of what is not, points after they were broadcast to the batch."""
    steps: list[Step] = []
    for number, tensor in enumerate(plain):
        if not tensor.is_contiguous():
            steps.append(Take(f"copy {number}", bytes_of(tensor)))
    for number, (tensor, batch, rows) in enumerate(points):
        whole = batch * int(rows) * int(tensor.shape[-1])
        if whole != numel(tensor.shape) or not tensor.is_contiguous():
            steps.append(Take(f"points {number}", whole * int(tensor.dtype.itemsize)))
    return steps


RULES = [PairwiseGradient(), EuclideanDistance()]
