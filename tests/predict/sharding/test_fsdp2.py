"""FSDP2, beside PyTorch's own code on fake tensors."""

from __future__ import annotations

import pytest

from oomph.phases import Phase
from oomph.predict.sharding.base import Unit, UnitParameter
from oomph.predict.sharding.fsdp2 import Fsdp2
from oomph.predict.sharding.fsdp2_group import Fsdp2Options, sizes_of
from oomph.predict.sharding.shards import Group
from tests.predict.sharding.driving import WORLD, Stack, assert_close, played, traced_peaks

FSDP2 = """
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, OffloadPolicy, fully_shard
names = (("replicate", "shard")[-len({mesh}):])
mesh = init_device_mesh("cuda", {mesh}, mesh_dim_names=names)
settings = dict(
    mesh=mesh,
    mp_policy=MixedPrecisionPolicy(param_dtype={compute}, reduce_dtype={reduce}),
    offload_policy={offload},
)
model = stack()
for each in model[1:-1]:
    fully_shard(each, reshard_after_forward={reshard}, **settings)
fully_shard(model, **settings)
if "{place}" == "meta":
    model.to_empty(device="{home}")
@contextlib.contextmanager
def no_sync():
    model.set_requires_gradient_sync(False)
    yield
    model.set_requires_gradient_sync(True)
train(model, accumulation={accumulation}, no_sync={no_sync})
"""

FSDP2_ALONE = """
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
mesh = init_device_mesh("cuda", (2, 1), mesh_dim_names=("replicate", "shard"))["shard"]
model = stack()
for each in model[1:-1]:
    fully_shard(each, mesh=mesh, mp_policy=policy)
fully_shard(model, mesh=mesh, mp_policy=policy)
train(model)
"""

BF16, FP32 = "torch.bfloat16", "torch.float32"


def _compared(
    stack=None, group=None, *, compute="None", reduce="None", place="meta", mesh=(4,), rank=0, **options
):
    stack = stack or Stack()
    chosen = Fsdp2Options(loaded={"meta": "meta", "cpu": "host", "cuda": "device"}[place], **options)  # type: ignore[arg-type]
    program = FSDP2.format(
        mesh=mesh,
        compute=compute,
        reduce=reduce,
        reshard=chosen.reshard,
        place=place,
        home="cpu" if chosen.offload else "cuda",
        offload="CPUOffloadPolicy()" if chosen.offload else "OffloadPolicy()",
        accumulation=chosen.accumulation,
        no_sync="no_sync" if chosen.no_sync else "contextlib.nullcontext",
    )
    peaks = traced_peaks(program, stack, place=place, rank=rank)
    sink = played(
        lambda units, sink: Fsdp2(units, sink, group or Group(WORLD, rank), chosen),
        stack,
        accumulation=chosen.accumulation,
    )
    return sink, peaks


@pytest.mark.parametrize("reshard", [True, False])
@pytest.mark.parametrize(
    ("compute", "reduce", "stack", "reduce_bytes"),
    [
        ("None", "None", Stack(), None),
        (BF16, FP32, Stack(compute=2), 4.0),
        (BF16, "None", Stack(compute=2), None),
        (BF16, BF16, Stack(compute=2, frozen=True), 2.0),
    ],
)
def test_peaks_are_those_of_pytorch(compute, reduce, stack, reduce_bytes, reshard):
    sink, peaks = _compared(stack, compute=compute, reduce=reduce, reshard=reshard, reduce_bytes=reduce_bytes)
    assert_close(sink, peaks)


@pytest.mark.parametrize(
    ("compute", "accumulation", "no_sync"), [(4.0, 2, True), (2.0, 3, True), (4.0, 3, False), (2.0, 2, False)]
)
def test_accumulation(compute, accumulation, no_sync):
    types = ("None", "None", None) if compute == 4 else (BF16, FP32, 4.0)
    sink, peaks = _compared(
        Stack(compute=compute),
        compute=types[0],
        reduce=types[1],
        reduce_bytes=types[2],
        accumulation=accumulation,
        no_sync=no_sync,
    )
    assert_close(sink, peaks)


@pytest.mark.parametrize("compute", [4.0, 2.0])
def test_offload(compute):
    types = ("None", "None", None) if compute == 4 else (BF16, FP32, 4.0)
    sink, peaks = _compared(
        Stack(compute=compute), compute=types[0], reduce=types[1], reduce_bytes=types[2], offload=True
    )
    assert_close(sink, peaks)


@pytest.mark.parametrize("reduce", [BF16, FP32])
def test_two_replicas_of_two_shards(reduce):
    sink, peaks = _compared(
        Stack(compute=2),
        Group(2, 0, replicas=2),
        compute=BF16,
        reduce=reduce,
        reduce_bytes=4.0 if reduce == FP32 else 2.0,
        mesh=(2, 2),
    )
    assert_close(sink, peaks)


@pytest.mark.parametrize("place", ["cpu", "cuda"])
def test_a_model_that_was_loaded_whole(place):
    sink, peaks = _compared(place=place)
    assert_close(sink, peaks)
    assert sink.peaks()[Phase.LOAD].bytes == pytest.approx(peaks[Phase.LOAD], rel=0.01)


@pytest.mark.parametrize("rank", [0, 3])
def test_rows_that_ranks_do_not_divide(rank):
    # 1022 = 256 + 256 + 256 + 254 rows, 1538 = 385 + 385 + 385 + 383.
    sink, peaks = _compared(Stack(width=1022, hidden=1538), rank=rank)
    assert_close(sink, peaks)


def test_one_rank_gathers_nothing_and_copies_all_the_same():
    program = FSDP2_ALONE
    peaks = traced_peaks(program, Stack(compute=2), world=2)
    sink = played(
        lambda units, sink: Fsdp2(units, sink, Group(), Fsdp2Options(reduce_bytes=4.0, loaded="device")),
        Stack(compute=2),
    )
    assert_close(sink, peaks)


def test_a_rank_may_be_left_without_rows():
    # ceil(5 / 4) = 2 rows for each of the first two ranks, 1 for the third, none for the last, which is padded to 2.
    unit = Unit("one", (UnitParameter("weight", 5 * 8, True, 4, 2, 4, shape=(5, 8)),))
    for rank, rows in enumerate((2, 2, 1, 0)):
        sizes = sizes_of(unit, Group(4, rank), Fsdp2Options(reduce_bytes=4.0))
        assert sizes.shards == (2 * 8 * 4,)
        assert sizes.buffer == 4 * 2 * 8 * 2
        assert sizes.reduce_input == 4 * 2 * 8 * 4
        assert sizes.local[0].shape == (rows, 8)
        assert sizes.local[0].numel == rows * 8


def test_packed_weights_are_gathered_as_they_are_stored():
    unit = Unit("one", (UnitParameter("weight", 1024, False, 0.5, 2, 2, stored_bytes=514, shape=(32, 32)),))
    sizes = sizes_of(unit, Group(4), Fsdp2Options())
    assert sizes.shards == (129,)  # ceil(514 / 4)
    assert (sizes.copied, sizes.buffer, sizes.local) == ((), 516, ())


TWO_TYPES = """
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
settings = dict(
    mesh=init_device_mesh("cuda", (4,)), mp_policy=MixedPrecisionPolicy(param_dtype={compute}, reduce_dtype={reduce})
)
class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = layer(WIDTH, HIDDEN), layer(HIDDEN, WIDTH).to(torch.bfloat16)
        self.down.requires_grad_(False)
    def forward(self, x):
        return self.down(self.up(x).to(torch.bfloat16)).to(x.dtype)
def block():
    return Block()
model = stack()
for each in model[1:-1]:
    fully_shard(each, **settings)
fully_shard(model, **settings)
train(model)
"""


@pytest.mark.parametrize(
    ("compute", "reduce", "item", "reduced"), [("None", "None", 4, None), (BF16, FP32, 2, 4.0)]
)
def test_frozen_parameters_in_another_type(compute, reduce, item, reduced):
    stack = Stack(compute=item)
    peaks = traced_peaks(TWO_TYPES.format(compute=compute, reduce=reduce), stack)
    root, block, *_ = stack.units
    down = UnitParameter("down", block.parameters[1].numel, False, 2, 2, 2, shape=block.parameters[1].shape)
    units = [root, *[Unit("block", (block.parameters[0], down))] * stack.blocks]
    options = Fsdp2Options(loaded="device", reduce_bytes=reduced)
    sink = played(lambda units, sink: Fsdp2(units, sink, Group(WORLD), options), stack, units=units)
    assert_close(sink, peaks)


CHECKPOINTED = """
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.utils.checkpoint import checkpoint
mesh = init_device_mesh("cuda", (4,))
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
    return fully_shard(module, mesh=mesh)
def block():
    return {block}
train(wrap(stack()))
"""
OUTSIDE, INSIDE = "Checkpointed(wrap(Block()))", "wrap(Checkpointed(Block()))"


@pytest.mark.parametrize(
    ("reentrant", "frozen", "block"),
    [(False, False, OUTSIDE), (True, False, OUTSIDE), (True, True, OUTSIDE), (False, True, INSIDE)],
)
def test_recomputing_finds_parameters_gathered(reentrant, frozen, block):
    stack = Stack(frozen=frozen)
    peaks = traced_peaks(CHECKPOINTED.format(reentrant=reentrant, block=block), stack)

    class Recomputing(Fsdp2):
        def backward_after(self, unit, grads):
            self.forward_before(unit)  # as a composed step does
            self.forward_after(unit)
            super().backward_after(unit, grads)

    options = Fsdp2Options(loaded="device")
    assert_close(played(lambda units, sink: Recomputing(units, sink, Group(WORLD), options), stack), peaks)
