"""Which strategy a job gets, and over which ranks."""

from __future__ import annotations

import pytest

from oomph.errors import UsageError
from oomph.job.model import Batch, Checkpointing, Hardware, Job, Optimizer, Parallel, Precision
from oomph.memory.categories import Category
from oomph.phases import Phase
from oomph.predict.event_sink import EventSink
from oomph.predict.frameworks.code import Code
from oomph.predict.peak_sink import PeakSink
from oomph.predict.sharding import strategy_for
from oomph.predict.sharding.base import Grad, Unit
from oomph.predict.sharding.choose import group_of
from oomph.predict.sharding.ddp import Ddp
from oomph.predict.sharding.fsdp1 import Fsdp1
from oomph.predict.sharding.fsdp2 import Fsdp2
from oomph.predict.sharding.none import Unsharded
from oomph.predict.sharding.shards import Group, piece
from oomph.predict.sharding.zero import Zero
from oomph.predict.sharding.zero3 import Zero3
from tests.predict.sharding.driving import Stack, backward, forward

CLASSES = {
    "none": Unsharded,
    "ddp": Ddp,
    "fsdp1_full_shard": Fsdp1,
    "fsdp1_shard_grad_op": Fsdp1,
    "fsdp1_no_shard": Fsdp1,
    "fsdp1_hybrid_shard": Fsdp1,
    "fsdp2_full": Fsdp2,
    "fsdp2_no_reshard": Fsdp2,
    "fsdp2_hybrid_shard": Fsdp2,
    "zero1": Zero,
    "zero2": Zero,
    "zero3": Zero3,
}


def job(strategy: str, **parallel) -> Job:
    return Job(parallel=Parallel(strategy=strategy, data=8, **parallel), hardware=Hardware(per_node=4))  # type: ignore[arg-type]


@pytest.mark.parametrize("strategy", CLASSES)
@pytest.mark.parametrize("accumulation", [1, 4])
@pytest.mark.parametrize("checkpointing", ["none", "full"])
def test_every_strategy_frees_what_it_makes(strategy, accumulation, checkpointing):
    chosen = job(strategy)
    chosen = Job(
        parallel=chosen.parallel,
        hardware=chosen.hardware,
        batch=Batch(accumulation=accumulation),
        checkpointing=Checkpointing(mode=checkpointing),
    )
    units = Stack(compute=2, frozen=True, width=64, hidden=96).units
    levels, events = [], 0
    for sink in (PeakSink(), EventSink()):
        sharding = strategy_for(chosen, units, sink, Code())
        assert isinstance(sharding, CLASSES[strategy])
        sharding.setup()
        for _ in range(3):
            for _ in range(min(2, accumulation)):
                forward(sharding, units)
                backward(sharding, sink, units)
            sharding.step_begin()
            assert sharding.optimizer_parameters() is sharding.optimizer_parameters()
            sharding.step_end()
            sharding.zero_grad()
            forward(sharding, units)  # an evaluation
            forward(sharding, units)
            if isinstance(sink, PeakSink):
                levels.append(sink.current_bytes)
            else:
                events = len(sink)
    assert levels[1] == levels[2]
    assert events


def test_hybrid_sharding_divides_by_nodes():
    assert group_of(job("fsdp1_hybrid_shard")) == Group(4, 0, 2)
    assert group_of(job("fsdp2_hybrid_shard", shard_size=2)) == Group(2, 0, 4)
    assert group_of(job("fsdp1_full_shard")) == Group(8, 0, 1)
    with pytest.raises(UsageError, match="8 ranks cannot be divided into shard groups of 3"):
        group_of(job("fsdp2_hybrid_shard", shard_size=3))


def test_fsdp2_shards_over_context_ranks_too():
    assert group_of(job("fsdp2_full", context=2)).ranks == 16
    assert group_of(job("zero3", context=2)).ranks == 8


def test_the_rank_that_holds_most_is_looked_at():
    assert group_of(job("zero2")).rank == 7
    assert group_of(job("zero3")).rank == 0
    assert [piece(10, 4, rank) for rank in range(4)] == [3, 3, 3, 1]
    assert [piece(5, 4, rank) for rank in range(4)] == [2, 2, 1, 0]


def test_a_zero_1_that_is_not_modelled_is_refused_by_name():
    wanted = Job(
        parallel=Parallel(strategy="zero1", data=8),
        precision=Precision(weights="bf16", compute="bf16", grads="fp32"),
    )
    with pytest.raises(UsageError, match=r"^unsupported: ZeRO-1 with gradients accumulated in fp32"):
        strategy_for(wanted, Stack().units, PeakSink())


def test_who_reduces_every_micro_batch():
    def left_whole(framework: str, strategy: str) -> bool:
        wanted = Job(parallel=Parallel(strategy=strategy, data=8), batch=Batch(accumulation=4))  # type: ignore[arg-type]
        sink = PeakSink()
        units = Stack(width=64, hidden=96).units
        sharding = strategy_for(wanted, units, sink, Code(framework=framework))
        sharding.setup()
        resident = sink.current_bytes
        forward(sharding, units)
        backward(sharding, sink, units)
        whole = sum(each.numel * 4 for unit in units for each in unit.parameters)
        return sink.current_bytes - resident >= whole

    for strategy in ("fsdp1_full_shard", "fsdp2_full"):
        assert left_whole("transformers", strategy)
        assert left_whole("litgpt", strategy)
        assert not left_whole("torchtitan", strategy)
        assert not left_whole("lightning", strategy)


def test_a_unit_may_stay_gathered_after_forward():
    units = Stack(width=64, hidden=96).units
    gathered = []
    for stays in (False, True):
        sink = PeakSink()
        sharding = strategy_for(job("fsdp2_full"), units, sink, Code(last_block_stays=stays))
        sharding.setup()
        forward(sharding, units)
        gathered.append(sink.current_bytes)
    assert gathered[1] - gathered[0] == 2 * 64 * 96 * 4


def test_offload_goes_to_the_strategy():
    wanted = Job(parallel=Parallel(strategy="zero2", data=4), optimizer=Optimizer(offload="cpu"))
    assert not strategy_for(wanted, Stack().units, PeakSink()).optimizer_parameters()
    wanted = Job(parallel=Parallel(strategy="fsdp2_full", data=4, offload_parameters=True))
    assert not strategy_for(wanted, Stack().units, PeakSink()).optimizer_parameters()


@pytest.mark.parametrize("strategy", CLASSES)
def test_the_roots_gradients_may_come_in_parts(strategy):
    """As where the root is the only unit, and blocks of it run backward one after another."""
    peaks = []
    for parts in (1, 2):
        sink = PeakSink()
        only = [
            Unit("root", tuple(each for unit in Stack(width=64, hidden=96).units for each in unit.parameters))
        ]
        sharding = strategy_for(job(strategy), only, sink, Code())
        sharding.setup()
        sharding.forward_begin()
        sharding.forward_end()
        sharding.backward_begin()
        grads = []
        for each in reversed(only[0].parameters):
            handle = sink.alloc(each.numel * 4, Category.GRADIENTS, "gradients")
            if sharding.holds_gradients():
                sink.free(handle)
            else:
                grads.append(Grad(handle, each, each.numel * 4))
        half = len(grads) // 2
        for part in ([grads], [grads[:half], grads[half:]])[parts - 1]:
            sharding.backward_after(0, part)
        sharding.backward_end()
        peaks.append((sink.peaks()[Phase.UNKNOWN].bytes, sink.current_bytes))
    assert peaks[0] == peaks[1]
