"""ZeRO: what DeepSpeed's source says, in arithmetic. (It cannot be traced: DeepSpeed's engine needs a GPU.)"""

from __future__ import annotations

from oomph.memory.categories import Category
from oomph.phases import Phase
from oomph.predict.peak_sink import PeakSink
from oomph.predict.sharding.base import Unit, UnitParameter
from oomph.predict.sharding.shards import Group
from oomph.predict.sharding.zero import Zero
from oomph.predict.sharding.zero3 import Zero3
from oomph.predict.sharding.zero3_live import Fetches
from oomph.predict.sharding.zero_flat import ZeroOptions, layout
from tests.predict.sharding.driving import backward, forward

KI = 1024
#: A root of two layers and four blocks of two, in bf16: elements of each.
ROOT, UP, DOWN, BLOCKS = 512 * KI, 256 * KI, 128 * KI, 4
#: All of it, and what each of four ranks has of it.
ALL = 2 * ROOT + BLOCKS * (UP + DOWN)
SHARE = ALL // 4


def parameter(name: str, numel: int, trains: bool = True) -> UnitParameter:
    return UnitParameter(name, numel, trains, 2, 2, 2)


def model(trains: bool = True) -> list[Unit]:
    root = Unit("root", (parameter("first", ROOT), parameter("last", ROOT)))
    block = Unit("block", (parameter("up", UP, trains), parameter("down", DOWN)))
    return [root, *[block] * BLOCKS]


def played(make, *, units=None, accumulation: int = 1, rank: int = 0, **options) -> PeakSink:
    units = units or model()
    sink = PeakSink()
    strategy = make(units, sink, Group(4, rank), ZeroOptions(accumulation=accumulation, **options))
    sink.phase(Phase.LOAD)
    strategy.setup()
    for _ in range(2):
        for _ in range(accumulation):
            sink.phase(Phase.FORWARD)
            forward(strategy, units)
            sink.phase(Phase.BACKWARD)
            backward(strategy, sink, units)
        sink.phase(Phase.OPTIMIZER)
        strategy.step_begin()
        strategy.step_end()
        strategy.zero_grad()
    return sink


def parts(sink: PeakSink, phase: Phase) -> dict[str, int]:
    return {name: size for (_, name), size in sink.peaks()[phase].parts.items()}


def test_the_flat_buffer_is_padded_so_that_partitions_begin_at_4_bytes():
    # 21 elements for 4 ranks: the next multiple of 2 * 4 is 24, 6 for each.
    units = [Unit("root", (parameter("a", 10), parameter("b", 11)))]
    flat = layout(units, Group(4, 1))
    assert (flat.numel, flat.partition) == (24, 6)
    assert [(each.first, each.last) for each in flat.placed[0]] == [(0, 1), (1, 3)]
    # Elements 6 to 11 are the last four of a and the first two of b: both are copied whole.
    assert (flat.own, flat.own_piece, flat.largest) == (21, 4, 11)


def test_parameters_stay_whole_and_masters_are_divided():
    sink = played(Zero, stage=2, reduce_bucket=64 * KI)
    assert parts(sink, Phase.FORWARD) == {"parameters": 2 * ALL, "fp32 masters": 4 * SHARE}
    # While masters are made: a copy of the partition in bf16; while states are prepared: fp32 zeros for it.
    assert sink.peaks()[Phase.LOAD].bytes == 2 * ALL + 4 * SHARE + 4 * SHARE


def test_flattening_beside_the_parameters_takes_them_twice():
    sink = played(Zero, stage=2, flatten_on_gpu=True, reduce_bucket=64 * KI)
    assert sink.peaks()[Phase.LOAD].bytes == 2 * ALL + 2 * ALL


def test_a_bucket_has_its_full_size_and_overlap_takes_two():
    bucket = 4 * ALL  # larger than the model
    for overlap, count in ((False, 1), (True, 2)):
        sink = played(Zero, stage=2, reduce_bucket=bucket, overlap=overlap)
        assert parts(sink, Phase.BACKWARD)["gradient bucket"] == count * bucket * 2
        assert "gradient bucket" not in parts(sink, Phase.FORWARD)


def test_a_bucket_that_belongs_to_several_ranks_is_copied_to_be_reduced():
    sink = played(Zero, stage=2, reduce_bucket=4 * ALL)
    # All gradients are in it at the end: their flat copy, and then rank 0's partition.
    assert parts(sink, Phase.BACKWARD) == {
        "parameters": 2 * ALL,
        "fp32 masters": 4 * SHARE,
        "gradient bucket": 2 * 4 * ALL,
        "reduced bucket": 2 * ALL,
    }
    wide = played(Zero, stage=2, reduce_bucket=4 * ALL, comm_bytes=4.0)
    assert parts(wide, Phase.BACKWARD)["reduced bucket"] == 2 * ALL + 4 * ALL


def test_gradients_are_partitioned_under_stage_2_and_whole_under_stage_1():
    second = played(Zero, stage=2, reduce_bucket=512 * KI, rank=3)
    assert parts(second, Phase.BACKWARD).get("gradients", 0) <= 2 * ROOT
    first = played(Zero, stage=1, reduce_bucket=512 * KI)
    assert parts(first, Phase.BACKWARD)["gradients"] == 2 * ALL


def test_the_step_has_a_flat_gradient_in_bf16_and_in_fp32():
    sink = played(Zero, stage=2, reduce_bucket=64 * KI)
    # Rank 0 holds the root's two layers, which are its first 1024 Ki elements of 2560 Ki / 4 = 640 Ki: both are
    # touched, so both are copied whole. Norm: the first layer's 512 Ki in float64.
    own = 2 * ROOT
    resident = 2 * ALL + 4 * SHARE + 2 * own
    assert SHARE == 640 * KI
    assert sink.peaks()[Phase.OPTIMIZER].bytes == resident + max(8 * ROOT, 2 * SHARE + 4 * SHARE)


def test_a_second_micro_batch_has_a_partition_of_its_own():
    once, twice = (played(Zero, stage=2, reduce_bucket=4 * ALL, accumulation=n) for n in (1, 2))
    own = 2 * 2 * ROOT
    # In the second backward the first partition is there while the bucket is copied.
    assert twice.peaks()[Phase.BACKWARD].bytes - once.peaks()[Phase.BACKWARD].bytes == own


def test_the_optimizer_on_the_host_leaves_a_staging_buffer():
    sink = played(Zero, stage=2, reduce_bucket=64 * KI, offload_optimizer=True)
    assert parts(sink, Phase.FORWARD) == {"parameters": 2 * ALL, "gradient on its way to the host": 2 * ROOT}
    strategy = Zero(model(), PeakSink(), Group(4), ZeroOptions(offload_optimizer=True))
    assert strategy.optimizer_parameters() == ()


def test_the_optimizer_steps_one_flat_partition_in_fp32():
    for make in (Zero, Zero3):
        strategy = make(model(), PeakSink(), Group(4), ZeroOptions())
        (only,) = strategy.optimizer_parameters()
        assert (only.numel, only.weight_bytes, only.shape) == (SHARE, 4, ())


def test_without_contiguous_gradients_there_is_no_bucket():
    sink = played(Zero, stage=2, reduce_bucket=64 * KI, contiguous=False)
    assert "gradient bucket" not in parts(sink, Phase.BACKWARD)
    assert sink.current_bytes == 2 * ALL + 4 * SHARE


def test_frozen_parameters_are_not_flattened():
    units = model(trains=False)
    frozen = BLOCKS * UP
    sink = played(Zero, units=units, stage=2, reduce_bucket=64 * KI)
    assert parts(sink, Phase.FORWARD) == {
        "frozen parameters": 2 * frozen,
        "parameters": 2 * (ALL - frozen),
        "fp32 masters": 4 * (ALL - frozen) // 4,
    }


STAGE3 = {"persistence": 1, "prefetch_bucket": 0, "max_reuse": 0, "reduce_bucket": 512 * KI}


def test_stage_3_divides_everything():
    sink = played(Zero3, **STAGE3)
    resident = {
        "parameter partitions": 2 * SHARE,
        "fp32 masters": 4 * SHARE,
        "gradient bucket": 2 * 512 * KI,
        "gradient partitions": 2 * SHARE,
    }
    # Forward: the larger of the root's layer and a block's largest layer, one at a time.
    assert parts(sink, Phase.FORWARD) == {**resident, "gathered parameters": 2 * ROOT}
    assert sink.current_bytes == sum(resident.values())


def test_persistent_parameters_are_there_whole_and_divided():
    sink = played(Zero3, **{**STAGE3, "persistence": DOWN})
    assert parts(sink, Phase.FORWARD)["persistent parameters"] == BLOCKS * 2 * DOWN


def test_what_is_used_again_soon_is_kept_at_the_turn_of_forward_and_backward():
    near = played(Zero3, **{**STAGE3, "max_reuse": 10 * ALL})
    # All blocks and the root's last layer, whose backward is next.
    assert parts(near, Phase.FORWARD)["gathered parameters"] == 2 * (BLOCKS * (UP + DOWN) + ROOT)
    # Behind a block come the root's last layer and the blocks after it, forward and backward: twice 512 Ki for the last
    # block, twice 896 Ki for the one before it.
    some = played(Zero3, **{**STAGE3, "max_reuse": 2 * 896 * KI})
    assert parts(some, Phase.FORWARD)["gathered parameters"] == 2 * (UP + DOWN + ROOT)


def test_prefetching_goes_on_until_its_bucket_is_full():
    # Beside "up" the next layer, "down", is fetched whatever its size: a bucket of one element is not full before.
    options = ZeroOptions(persistence=1, prefetch_bucket=1, max_reuse=0)
    assert sum(Fetches(model(), Group(4), options).forward[1]) == 2 * (UP + DOWN)
    # Three small ones behind a large one. While the first of them is used, the other two and the large one of the block
    # behind fill the bucket: gathered in one flat buffer, of which each is then copied.
    small = [parameter(name, 4 * KI) for name in "abc"]
    units = [Unit("root", ()), Unit("block", (parameter("up", UP), *small))]
    options = ZeroOptions(persistence=1, prefetch_bucket=12 * KI, max_reuse=0)
    assert sum(Fetches(units, Group(4), options).forward[1]) == 2 * 4 * KI + 2 * 2 * (8 * KI + UP)
    # As many as may live are there already, once the large one is.
    options = ZeroOptions(persistence=1, prefetch_bucket=12 * KI, max_reuse=0, max_live=4 * KI)
    assert sum(Fetches(units, Group(4), options).forward[1]) == 2 * UP


def test_under_checkpointing_a_unit_is_whole_in_backward():
    plain, again = (Fetches(model(), Group(4), _stage3(recomputes=each)) for each in (False, True))
    assert sum(plain.backward[1]) == 2 * UP
    assert sum(again.backward[1]) == 2 * (UP + DOWN)


def test_a_reduction_of_one_gradient_that_ranks_divide_needs_no_copy():
    one = [Unit("root", (parameter("only", ROOT),))]
    sink = PeakSink()
    strategy = Zero3(one, sink, Group(4), _stage3())
    strategy.setup()
    before = sink.current_bytes
    sink.phase(Phase.BACKWARD)
    strategy.backward_begin()
    strategy.backward_after(0, ())
    strategy.backward_end()
    assert sink.peaks()[Phase.BACKWARD].bytes == before


def test_offloaded_parameters_leave_nothing_but_what_is_gathered():
    sink = played(Zero3, **{**STAGE3, "offload_parameters": True, "offload_optimizer": True})
    assert parts(sink, Phase.FORWARD) == {
        "gradient bucket": 2 * 512 * KI,
        "gathered parameters": 2 * ROOT,
    }


def test_a_step_takes_one_sub_group_at_a_time():
    whole = played(Zero3, **STAGE3)
    # Pieces of 128, 128, 64, 32, ... Ki: a sub-group of 256 Ki is the root's two.
    divided = played(Zero3, **{**STAGE3, "sub_group": 256 * KI})
    resident = 2 * SHARE + 4 * SHARE + 2 * 512 * KI + 2 * SHARE
    assert whole.peaks()[Phase.OPTIMIZER].bytes == resident + max(8 * ROOT // 4, (2 + 4) * SHARE)
    assert divided.peaks()[Phase.OPTIMIZER].bytes == resident + max(8 * ROOT // 4, (2 + 4) * 256 * KI)


def test_names_of_parts_have_their_categories():
    labels = played(Zero3, **STAGE3).peaks()[Phase.FORWARD].parts
    assert (Category.OPTIMIZER_STATE, "fp32 masters") in labels
    assert (Category.COMMUNICATION, "gradient bucket") in labels


def _stage3(**more) -> ZeroOptions:
    return ZeroOptions(persistence=1, prefetch_bucket=0, max_reuse=0, reduce_bucket=4 * ALL, **more)
