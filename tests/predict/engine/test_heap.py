"""Views, strides and blocks, held against PyTorch itself."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from oomph.predict.engine.heap import (
    Heap,
    Tensor,
    contiguous,
    is_dense,
    numel,
    promote,
    same_order,
    view_strides,
)


@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=4),
    st.randoms(use_true_random=False),
)
def test_a_view_is_possible_where_pytorch_says_so(shape, random):
    order = list(range(len(shape)))
    random.shuffle(order)
    tensor = torch.empty(shape).permute(order)
    if random.random() < 0.3 and tensor.shape[0] > 1:
        tensor = tensor[1:]
    wanted = [numel(tuple(tensor.shape))]
    if random.random() < 0.7 and tensor.dim() > 1:
        wanted = [tensor.shape[0], numel(tuple(tensor.shape[1:]))]
    try:
        expected = tuple(tensor.view(wanted).stride())
    except RuntimeError:
        expected = None
    mine = view_strides(tuple(tensor.shape), tuple(tensor.stride()), tuple(wanted))
    if expected is None or 1 in wanted:
        assert (mine is None) == (expected is None)
    else:
        assert mine == expected


@pytest.mark.parametrize("order", [(0, 1, 2), (0, 2, 1), (2, 0, 1), (1, 0, 2)])
def test_results_of_pointwise_operators_lie_as_their_argument(order):
    tensor = torch.empty(4, 3, 5).permute(order)
    assert same_order(tuple(tensor.shape), tuple(tensor.stride())) == tuple((tensor * 2).stride())


def test_an_expanded_argument_gives_a_result_of_its_own_layout():
    tensor = torch.empty(1, 3).expand(4, 3)
    assert same_order(tuple(tensor.shape), tuple(tensor.stride())) == tuple((tensor * 2).stride())


def test_contiguous_and_dense_as_pytorch_has_them():
    assert contiguous((2, 3, 4)) == torch.empty(2, 3, 4).stride()
    heap = Heap()
    tensor = heap.new((2, 3), "fp32")
    assert is_dense(tensor)
    assert not is_dense(Tensor(tensor.storage, (2, 2), (3, 1), "fp32"))


@pytest.mark.parametrize(
    ("one", "two"), [("bf16", "fp32"), ("fp32", "fp32"), ("bool", "int64"), ("int64", "bf16")]
)
def test_promotion(one, two):
    types = {"bf16": torch.bfloat16, "fp32": torch.float32, "bool": torch.bool, "int64": torch.int64}
    assert types[promote(one, two)] == torch.promote_types(types[one], types[two])


def test_a_block_is_freed_by_its_last_holder():
    heap = Heap()
    tensor = heap.new((256,), "fp32")
    other = heap.view(tensor, (16, 16), (16, 1))
    heap.release(tensor.storage)
    assert heap.events == [0]
    heap.release(other.storage)
    assert heap.events == [0, ~0]
    assert heap.sizes == [1024]
    with pytest.raises(RuntimeError):
        heap.release(other.storage)
