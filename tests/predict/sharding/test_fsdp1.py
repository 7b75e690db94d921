"""FSDP1, beside PyTorch's own code on fake tensors."""

from __future__ import annotations

import pytest

from oomph.phases import Phase
from oomph.predict.peak_sink import PeakSink
from oomph.predict.sharding.base import Unit, UnitParameter
from oomph.predict.sharding.fsdp1 import Fsdp1
from oomph.predict.sharding.fsdp1_flat import Fsdp1Options, flats_of
from oomph.predict.sharding.shards import Group
from tests.predict.sharding.driving import WORLD, Stack, apart, assert_close, forward, played, traced_peaks

FSDP1 = """
from torch.distributed.fsdp import BackwardPrefetch, CPUOffload, FullyShardedDataParallel, MixedPrecision
from torch.distributed.fsdp import ShardingStrategy
from torch.distributed.device_mesh import init_device_mesh
settings = dict(
    sharding_strategy=ShardingStrategy.{strategy},
    mixed_precision=MixedPrecision(param_dtype={compute}, reduce_dtype={reduce}),
    backward_prefetch={prefetch},
    forward_prefetch={forward_prefetch},
    cpu_offload=CPUOffload({offload}),
    use_orig_params={orig},
    device_id=torch.cuda.current_device(),
    device_mesh={mesh},
)
model = stack()
for number in range(1, len(model) - 1):
    if {apart}:
        model[number][0] = FullyShardedDataParallel(model[number][0], **settings)
    model[number] = FullyShardedDataParallel(model[number], **settings)
model = FullyShardedDataParallel(model, **settings)
train(model, accumulation={accumulation}, no_sync={no_sync})
"""

BF16, FP32 = "torch.bfloat16", "torch.float32"
PREFETCH = {"pre": "BackwardPrefetch.BACKWARD_PRE", "post": "BackwardPrefetch.BACKWARD_POST", "none": "None"}


def _compared(
    stack=None, group=None, *, compute="None", reduce="None", place="cpu", mesh="None", name="", **options
):
    stack = stack or Stack()
    chosen = Fsdp1Options(loaded={"cpu": "host", "cuda": "device"}[place], **options)  # type: ignore[arg-type]
    program = FSDP1.format(
        strategy=name or chosen.strategy.upper(),
        mesh=mesh,
        compute=compute,
        reduce=reduce,
        prefetch=PREFETCH[chosen.prefetch],
        forward_prefetch=chosen.forward_prefetch,
        offload=chosen.offload,
        orig=chosen.use_orig_params,
        apart=stack.mixed and not chosen.use_orig_params,
        accumulation=chosen.accumulation,
        no_sync="model.no_sync" if chosen.no_sync else "contextlib.nullcontext",
    )
    peaks = traced_peaks(program, stack, place=place)
    sink = played(
        lambda units, sink: Fsdp1(units, sink, group or Group(WORLD), chosen),
        stack,
        accumulation=chosen.accumulation,
    )
    return sink, peaks


@pytest.mark.parametrize("strategy", ["full_shard", "shard_grad_op", "no_shard"])
@pytest.mark.parametrize(
    ("compute", "reduce", "stack", "reduce_bytes"),
    [
        ("None", "None", Stack(), None),
        (BF16, FP32, Stack(compute=2), 4.0),
        (BF16, "None", Stack(compute=2), None),
        (BF16, BF16, Stack(compute=2, frozen=True), 2.0),
    ],
)
def test_peaks_are_those_of_pytorch(compute, reduce, stack, reduce_bytes, strategy):
    sink, peaks = _compared(
        stack, compute=compute, reduce=reduce, strategy=strategy, reduce_bytes=reduce_bytes
    )
    assert_close(sink, peaks)


@pytest.mark.parametrize(
    ("prefetch", "forward_prefetch", "strategy"),
    [
        ("pre", True, "full_shard"),
        ("post", True, "full_shard"),
        ("post", False, "full_shard"),
        ("none", False, "full_shard"),
        ("post", True, "shard_grad_op"),
    ],
)
def test_prefetch(prefetch, forward_prefetch, strategy):
    sink, peaks = _compared(prefetch=prefetch, strategy=strategy, forward_prefetch=forward_prefetch)
    assert_close(sink, peaks)


@pytest.mark.parametrize(
    ("compute", "no_sync", "strategy"),
    [
        (4.0, True, "full_shard"),
        (2.0, True, "full_shard"),
        (2.0, False, "full_shard"),
        (2.0, True, "shard_grad_op"),
        (2.0, True, "no_shard"),
        (4.0, False, "no_shard"),
        (2.0, False, "no_shard"),
    ],
)
def test_accumulation(compute, no_sync, strategy):
    types = ("None", "None", None) if compute == 4 else (BF16, FP32, 4.0)
    sink, peaks = _compared(
        Stack(compute=compute),
        compute=types[0],
        reduce=types[1],
        reduce_bytes=types[2],
        accumulation=3,
        no_sync=no_sync,
        strategy=strategy,
    )
    assert_close(sink, peaks)


@pytest.mark.parametrize("compute", [4.0, 2.0])
@pytest.mark.parametrize("width", [1024, 1023])
def test_original_parameters(compute, width):
    types = ("None", "None", None) if compute == 4 else (BF16, FP32, 4.0)
    sink, peaks = _compared(
        Stack(compute=compute, width=width),
        compute=types[0],
        reduce=types[1],
        reduce_bytes=types[2],
        use_orig_params=True,
    )
    assert_close(sink, peaks)


@pytest.mark.parametrize("compute", [4.0, 2.0])
def test_offload(compute):
    types = ("None", "None", None) if compute == 4 else (BF16, FP32, 4.0)
    sink, peaks = _compared(
        Stack(compute=compute), compute=types[0], reduce=types[1], reduce_bytes=types[2], offload=True
    )
    assert_close(sink, peaks)


def test_elements_that_ranks_do_not_divide():
    sink, peaks = _compared(Stack(width=1023, hidden=1537))
    assert_close(sink, peaks)


def test_two_replicas_of_two_shards():
    mesh = 'init_device_mesh("cuda", (2, 2), mesh_dim_names=("replicate", "shard"))'
    sink, peaks = _compared(group=Group(2, 0, replicas=2), mesh=mesh, name="HYBRID_SHARD")
    assert_close(sink, peaks)


@pytest.mark.parametrize("place", ["cpu", "cuda"])
def test_loading(place):
    sink, peaks = _compared(place=place)
    assert_close(sink, peaks)
    assert sink.peaks()[Phase.LOAD].bytes == pytest.approx(peaks[Phase.LOAD], rel=0.01)


@pytest.mark.parametrize("compute", [4.0, 2.0])
def test_frozen_and_trained_in_one_flat_parameter_have_a_whole_gradient(compute):
    types = ("None", None) if compute == 4 else (BF16, 2.0)
    stack = Stack(compute=compute, mixed=True)
    sink, peaks = _compared(
        stack, compute=types[0], reduce=types[0], reduce_bytes=types[1], use_orig_params=True
    )
    assert_close(sink, peaks)
    flat = flats_of(stack.units[1], Group(WORLD), Fsdp1Options(use_orig_params=True))
    assert [each.gradient for each in flat] == [2 * 1024 * 1536 * compute]


def test_what_trains_may_be_wrapped_apart_from_what_is_frozen():
    sink, peaks = _compared(Stack(mixed=True))
    # PyTorch gathers the two one after another, here both are taken to be there while the unit runs.
    assert_close(sink, peaks, within=0.1)
    assert min(apart(sink, peaks).values()) >= -0.01


def test_only_frozen_flat_parameters_keep_their_inputs():
    def kept(stack, **options):
        return Fsdp1(stack.units, PeakSink(), Group(4), Fsdp1Options(**options)).keeps_inputs(1)

    assert kept(Stack(frozen=True), nested=True)
    assert kept(Stack(mixed=True), nested=True)
    assert not kept(Stack(mixed=True), use_orig_params=True, nested=True)
    assert not kept(Stack(frozen=True))
    assert not kept(Stack(), nested=True)


def test_an_optimizer_steps_what_of_each_parameter_lies_in_the_shard():
    # Elements 0-9 and, from the next multiple of 4 (16 bytes), 12-31; four ranks share 32.
    unit = Unit("one", (UnitParameter("a", 10, True, 4, 4, 4), UnitParameter("b", 20, True, 4, 4, 4)))
    for rank, wanted in enumerate(([("a", 8)], [("a", 2), ("b", 4)], [("b", 8)], [("b", 8)])):
        strategy = Fsdp1([unit], PeakSink(), Group(4, rank), Fsdp1Options(use_orig_params=True))
        assert [(each.name, each.numel) for each in strategy.optimizer_parameters()] == wanted
    flat = Fsdp1([unit], PeakSink(), Group(4)).optimizer_parameters()
    assert [each.numel for each in flat] == [8]  # ceil(30 / 4)


def test_an_evaluation_leaves_the_root_gathered():
    stack = Stack()
    for strategy, gathered in (("full_shard", 2 * 1024**2 * 4), ("shard_grad_op", sum(_whole(stack)))):
        sink = PeakSink()
        sharding = Fsdp1(stack.units, sink, Group(4), Fsdp1Options(strategy=strategy))  # type: ignore[arg-type]
        sharding.setup()
        before = sink.current_bytes
        forward(sharding, stack.units)
        assert sink.current_bytes - before == gathered


def _whole(stack):
    return [each.numel * 4 for unit in stack.units for each in unit.parameters]


CHECKPOINTED = """
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.utils.checkpoint import checkpoint
class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = layer(WIDTH, HIDDEN), layer(HIDDEN, WIDTH)
    def forward(self, x):
        return self.down(self.up(x))
class Checkpointed(torch.nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner
    def forward(self, x):
        return checkpoint(self.inner, x, use_reentrant={reentrant})
def wrap(module):
    return FullyShardedDataParallel(module, device_id=torch.cuda.current_device())
def block():
    return {block}
train(wrap(stack()), rows={rows})
"""
OUTSIDE, INSIDE = "Checkpointed(wrap(Block()))", "wrap(Checkpointed(Block()))"


def test_a_reentrant_checkpoint_around_frozen_units_keeps_a_gradient_for_each():
    rows, blocks = 4096, 6
    hidden = rows * 1024 * 4

    def peak(frozen, reentrant, block):
        stack = Stack(hidden=256, blocks=blocks, frozen=frozen)
        program = CHECKPOINTED.replace("rows=", "steps=1, rows=").format(
            reentrant=reentrant, block=block, rows=rows
        )
        return traced_peaks(program, stack, place="cpu")[Phase.BACKWARD]

    # Without the hook, gradients of inputs pass. With it, all but a few are there when the first block is reached.
    assert peak(True, True, OUTSIDE) - peak(True, True, INSIDE) > (blocks - 3) * hidden
    assert peak(False, True, OUTSIDE) - peak(False, True, INSIDE) < hidden


@pytest.mark.parametrize(
    ("reentrant", "frozen", "block"),
    [(False, False, OUTSIDE), (True, False, OUTSIDE), (True, True, OUTSIDE), (True, True, INSIDE)],
)
def test_recomputing_finds_parameters_gathered(reentrant, frozen, block):
    stack = Stack(frozen=frozen)
    peaks = traced_peaks(CHECKPOINTED.format(reentrant=reentrant, block=block, rows=1), stack, place="cpu")

    class Recomputing(Fsdp1):
        def backward_after(self, unit, grads):
            self.forward_before(unit)  # as a composed step does
            self.forward_after(unit)
            super().backward_after(unit, grads)

    options = Fsdp1Options(nested=reentrant and block == OUTSIDE)
    assert_close(played(lambda units, sink: Recomputing(units, sink, Group(WORLD), options), stack), peaks)
