"""DDP, beside PyTorch's own reducer on fake tensors."""

from __future__ import annotations

import pytest

from oomph.memory.categories import Category
from oomph.phases import Phase
from oomph.predict.event_sink import EventSink
from oomph.predict.sharding.base import Unit, UnitParameter
from oomph.predict.sharding.ddp import Ddp, buckets
from oomph.predict.sharding.none import Unsharded
from oomph.units import MIB
from tests.predict.sharding.driving import Stack, assert_close, backward, forward, played, traced_peaks

DDP = """
model = torch.nn.parallel.DistributedDataParallel(stack(), gradient_as_bucket_view={views})
train(model, accumulation={accumulation}, no_sync={no_sync})
"""


@pytest.mark.parametrize(
    ("views", "accumulation", "no_sync", "frozen"),
    [
        (False, 1, False, False),
        (False, 2, True, True),
        (True, 1, False, True),
        (True, 2, False, False),
        (True, 2, True, False),
    ],
)
def test_peaks_are_those_of_pytorch(views, accumulation, no_sync, frozen):
    stack = Stack(frozen=frozen, blocks=8)
    program = DDP.format(
        views=views,
        accumulation=accumulation,
        no_sync="model.no_sync" if no_sync else "contextlib.nullcontext",
    )
    peaks = traced_peaks(program, stack)
    sink = played(
        lambda units, sink: Ddp(units, sink, as_views=views, accumulation=accumulation, no_sync=no_sync),
        stack,
        accumulation=accumulation,
    )
    assert_close(sink, peaks)
    assert abs(sink.peaks()[Phase.LOAD].bytes / peaks[Phase.LOAD] - 1) <= 0.01


def test_one_gpu_without_sharding():
    stack = Stack()
    peaks = traced_peaks("train(stack(), accumulation=2)", stack, world=1)
    assert_close(played(Unsharded, stack, accumulation=2), peaks)


def test_a_bucket_is_full_when_it_has_reached_its_limit():
    # The first closes at 1 MiB: one tensor of 2. Then 10 + 10 + 10 reach 25, and 3 are left over.
    assert buckets([2 * MIB, 10 * MIB, 10 * MIB, 10 * MIB, 3 * MIB], (MIB, 25 * MIB)) == [
        2 * MIB,
        30 * MIB,
        3 * MIB,
    ]
    assert buckets([], (MIB,)) == []


def test_buckets_are_made_anew_in_the_second_forward_in_the_order_of_gradients():
    units = [
        Unit("root", ()),
        Unit("a", (UnitParameter("x", 10 * MIB // 4, True, 4, 4, 4),)),
        Unit("b", (UnitParameter("y", 4 * MIB // 4, True, 4, 4, 4),)),
    ]
    sink = EventSink()
    strategy = Ddp(units, sink)
    strategy.setup()
    forward(strategy, units)
    backward(strategy, sink, units)
    strategy.zero_grad()
    before = len(sink)
    strategy.forward_begin()
    made = list(zip(sink.frees[before:], sink.sizes[before:], strict=True))
    # y comes first and fills the first bucket of 1 MiB; x has one of its own.
    assert made == [(1, 14 * MIB), (0, 4 * MIB), (0, 10 * MIB)]
    strategy.forward_end()
    before = len(sink)
    strategy.forward_begin()
    assert len(sink) == before


def test_gradients_as_views_take_nothing_beside_the_buckets():
    stack = Stack()
    size = sum(each.numel * 4 for unit in stack.units for each in unit.parameters)
    for views, gradients in ((False, size), (True, 0)):
        sink = played(lambda units, sink, views=views: Ddp(units, sink, as_views=views), stack)  # type: ignore[misc]
        parts = sink.peaks()[Phase.OPTIMIZER].parts
        assert parts.get((Category.GRADIENTS, "gradients"), 0) == gradients
        assert parts[Category.COMMUNICATION, "DDP buckets"] == size
