"""Bags of embeddings, distances of pairs, bilinear layers."""

from __future__ import annotations

import pytest
import torch

from tests.tracing.kernels.calls import aten, call, steps, taken, tensor
from tests.tracing.programs import traced

_LONG = torch.int64


def test_results_of_bags_come_in_the_order_of_the_kernel() -> None:
    weight, indices, offsets = tensor(100, 16), tensor(12, dtype=_LONG), tensor(3, dtype=_LONG)
    what = call(aten._embedding_bag.default, weight, indices, offsets, False, 0)
    assert steps("embedding_bag", 4, what) == [("out", 2), ("out", 1), ("out", 0), ("out", 3)]


def test_only_the_maximum_keeps_indices() -> None:
    program = """
        bag = torch.nn.EmbeddingBag(100, 16, mode="{mode}").cuda()
        indices, offsets = torch.randint(0, 100, (12,)).cuda(), torch.tensor([0, 4, 8]).cuda()
        mark()
        bag(indices, offsets).sum().backward()
        print(tuple(bag.weight.grad.shape))
    """
    kept = [("alloc", 3 * 8), ("alloc", 12 * 8), ("alloc", 3 * 16 * 4)]
    seen = traced(program.format(mode="max"))
    assert seen.events_after_mark[:4] == [*kept, ("alloc", 3 * 16 * 8)]
    assert seen.printed == "(100, 16)\n"
    seen = traced(program.format(mode="sum"))
    assert seen.events_after_mark[:3] == kept
    assert ("alloc", 3 * 16 * 8) not in seen.events_after_mark
    assert not seen.unruled


def test_few_indices_are_sorted_too() -> None:
    grad, indices, offsets = tensor(3, 16), tensor(12, dtype=_LONG), tensor(3, dtype=_LONG)
    arguments = (grad, indices, offsets, indices, offsets, indices, 100, False)
    sizes = taken(
        "embedding_bag_backward", call(aten._embedding_bag_backward.default, *arguments, 1, False, None)
    )
    assert sizes.count(12 * 8) >= 3  # positions, sorted indices and their places
    most = call(aten._embedding_bag_backward.default, *arguments, 2, False, None)
    assert taken("embedding_bag_backward", most) == []


def test_gradients_of_distances_have_a_row_for_every_pair() -> None:
    first, second, between = tensor(2, 5, 8), tensor(2, 7, 8), tensor(2, 5, 7)
    what = call(aten._cdist_backward.default, between, first, second, 1.0, between)
    assert taken("pairwise_distance_backward", what) == [2 * 5 * 7 * 8 * 4]
    broadcast = call(aten._cdist_backward.default, between, first, tensor(1, 7, 8), 1.0, between)
    assert taken("pairwise_distance_backward", broadcast) == [2 * 7 * 8 * 4, 2 * 5 * 7 * 8 * 4]
    pairs = tensor(10)
    what = call(aten._pdist_backward.default, pairs, tensor(5, 8), 2.0, pairs)
    assert taken("pairwise_distance_backward", what) == [4 * 5 * 8 * 4]


def test_a_euclidean_distance_is_a_matrix_product() -> None:
    what = call(aten._euclidean_dist.default, tensor(30, 8), tensor(40, 8))
    sizes = taken("euclidean_distance", what)
    assert sizes == [
        *(30 * 8 * 4, 30 * 4, 30 * 4),
        *(40 * 8 * 4, 40 * 4, 40 * 4),
        30 * 8 * 4,
        30 * 10 * 4,
        40 * 10 * 4,
    ]


@pytest.mark.parametrize(
    "lines",
    [
        "torch.nn.Bilinear(8, 9, 10).cuda()(a, torch.randn(30, 9, device='cuda')).sum().backward()",
        "torch.cdist(a, a.detach()[:20], p=1.0).sum().backward()",
        "torch.cdist(a, a.detach()).sum().backward()",
        "torch.pdist(a).sum().backward()",
    ],
)
def test_all_of_them_are_known(lines: str) -> None:
    seen = traced(f"a = torch.randn(30, 8, device='cuda', requires_grad=True)\n{lines}")
    assert not seen.unruled
