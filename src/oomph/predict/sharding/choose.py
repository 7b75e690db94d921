"""From a job to its strategy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from oomph.errors import UsageError
from oomph.job.model import ITEM_BYTES, Job
from oomph.predict.frameworks.code import Code
from oomph.predict.frameworks.versions import below
from oomph.predict.sharding.base import Sharding, Unit
from oomph.predict.sharding.sharded_qlora import loaded_whole
from oomph.predict.sharding.shards import Group
from oomph.predict.sink import Sink

# A job has one strategy: the others' files are not read.
if TYPE_CHECKING:
    from oomph.predict.sharding.fsdp1_flat import Fsdp1Options
    from oomph.predict.sharding.fsdp2_group import Fsdp2Options
    from oomph.predict.sharding.zero_flat import ZeroOptions

#: Whose loop leaves micro-batches but the last unreduced (transformers 5.24 trainer.py and accelerate's no_sync,
#: unless sync_each_batch is set; LitGPT's fabric.no_backward_sync). torchtitan and torchtune reduce each;
#: Lightning's Trainer leaves out the reduction under DDP only (ParallelStrategy.block_backward_sync).
_NO_SYNC = frozenset(("", "transformers", "trl", "peft", "accelerate", "axolotl", "llama-factory", "litgpt"))
_NO_SYNC_DDP = frozenset((*_NO_SYNC, "lightning"))
#: Whose FSDP2 models are made on the meta device and come to the GPU in shards. (accelerate does so only where
#: cpu_ram_efficient_loading was asked for.)
_FROM_META = frozenset(("torchtitan", "torchtune"))
_FSDP1: dict[str, Literal["full_shard", "shard_grad_op", "no_shard"]] = {
    "fsdp1_full_shard": "full_shard",
    "fsdp1_hybrid_shard": "full_shard",
    "fsdp1_shard_grad_op": "shard_grad_op",
    "fsdp1_no_shard": "no_shard",
}


def strategy_for(
    job: Job,
    units: Sequence[Unit],
    sink: Sink,
    code: Code | None = None,
    *,
    rank: int | None = None,
    micro_batches: int = 2,
    no_sync: bool | None = None,
) -> Sharding:
    """The job's strategy over these units. `code` has what the framework decides (None: what a plain script does).

    `rank`: whose share of the shards (None: the rank that holds most; under ZeRO-2 the last one, whose
    gradients come first). `micro_batches`: how many are played at most of those that a step accumulates.
    `no_sync`: whether all but the last are left unreduced (None: as the framework does). Raises UsageError for
    what is not modelled.
    """
    strategy = job.parallel.strategy
    count = min(job.batch.accumulation, micro_batches)
    name = (code.framework if code is not None else job.framework.name).lower()
    loops = _NO_SYNC_DDP if strategy == "ddp" else _NO_SYNC
    if no_sync is None and job.parallel.sync_each_batch is not None:
        no_sync = not job.parallel.sync_each_batch
    unreduced = name in loops if no_sync is None else no_sync
    if strategy == "none":
        from oomph.predict.sharding.none import Unsharded

        return Unsharded(units, sink)
    if strategy == "ddp":
        from oomph.predict.sharding.ddp import Ddp

        return Ddp(
            units,
            sink,
            bucket_bytes=job.parallel.ddp_bucket_bytes,
            as_views=job.parallel.gradient_as_bucket_view,
            accumulation=count,
            no_sync=unreduced,
        )
    group = group_of(job, rank)
    if strategy in _FSDP1:
        from oomph.predict.sharding.fsdp1 import Fsdp1

        return Fsdp1(units, sink, group, _fsdp1(job, code, count, unreduced, name))
    if strategy.startswith("fsdp2"):
        from oomph.predict.sharding.fsdp2 import Fsdp2

        settings = _fsdp2(job, code, units, count, unreduced, name)
        if job.parallel.expert > 1:
            from oomph.predict.sharding.expert_parallel import ExpertFsdp2

            return ExpertFsdp2(units, sink, group, settings, job.parallel.expert)
        return Fsdp2(units, sink, group, settings)
    return _deepspeed(strategy, units, sink, group, _zero(job, count))


def _deepspeed(
    strategy: str, units: Sequence[Unit], sink: Sink, group: Group, options: ZeroOptions
) -> Sharding:
    if strategy == "zero3":
        from oomph.predict.sharding.zero3 import Zero3

        return Zero3(units, sink, group, options)
    from oomph.predict.sharding.zero import Zero

    return Zero(units, sink, group, options)


def group_of(job: Job, rank: int | None = None) -> Group:
    """The ranks that share one copy of the parameters. Under FSDP2 ranks of context parallelism do so too
    (torchtitan's mesh dp_shard_cp)."""
    parallel = job.parallel
    ranks = parallel.data * (parallel.context if parallel.strategy.startswith("fsdp2") else 1)
    size = ranks
    if parallel.strategy.endswith("hybrid_shard"):
        size = min(ranks, parallel.shard_size or job.hardware.per_node or ranks)
        if ranks % size:
            raise UsageError(f"{ranks} ranks cannot be divided into shard groups of {size}.")
    if rank is None:
        rank = size - 1 if parallel.strategy == "zero2" else 0
    return Group(size, rank % size, ranks // size)


def _reduce_bytes(job: Job, code: Code | None) -> float | None:
    if job.precision.reduce is not None:
        return ITEM_BYTES[job.precision.reduce]
    return 4.0 if code is not None and not code.reduces_in_compute else None


def _fsdp1(job: Job, code: Code | None, accumulation: int, no_sync: bool, name: str) -> Fsdp1Options:
    from oomph.predict.sharding.fsdp1_flat import Fsdp1Options

    parallel = job.parallel
    default = code.use_orig_params if code is not None else False
    return Fsdp1Options(
        strategy=_FSDP1[parallel.strategy],
        reduce_bytes=_reduce_bytes(job, code),
        use_orig_params=default if parallel.use_orig_params is None else parallel.use_orig_params,
        apart=code is not None and code.adapters_apart,
        prefetch="none" if _nested(job, code) else parallel.backward_prefetch,
        forward_prefetch=parallel.forward_prefetch,
        offload=parallel.offload_parameters,
        accumulation=accumulation,
        no_sync=no_sync and accumulation > 1,
        nested=_nested(job, code),
        loaded="device" if loaded_whole(job, name) else "host",
    )


def _nested(job: Job, code: Code | None) -> bool:
    """Whether reentrant checkpoints call wrapped units: their forward then runs without gradients, no pre-backward hook
    is registered, and nothing counts as needing a prefetch (_register_pre_backward_hooks and _get_handle_to_prefetch in
    torch/distributed/fsdp/_runtime_utils.py). Since transformers 4.52 (GradientCheckpointingLayer of
    modeling_layers.py) a layer checkpoints within itself."""
    if code is not None and code.checkpoints_within_units:
        return False
    asked = job.checkpointing.reentrant
    reentrant = (code is not None and code.reentrant) if asked is None else asked
    return (
        job.checkpointing.mode != "none"
        and reentrant
        and below(job.framework, "transformers", 4, 52) is not False
    )


def _fsdp2(
    job: Job, code: Code | None, units: Sequence[Unit], accumulation: int, no_sync: bool, name: str
) -> Fsdp2Options:
    from oomph.predict.sharding.fsdp2_group import Fsdp2Options

    stays = set()
    if code is not None and code.last_block_stays:
        stays.update([number for number, unit in enumerate(units) if unit.name.startswith("block")][-1:])
    if code is not None and code.head_stays:
        stays.update(number for number, unit in enumerate(units) if unit.name == "output layer")
    return Fsdp2Options(
        reshard=job.parallel.strategy != "fsdp2_no_reshard",
        stays=frozenset(stays),
        reduce_bytes=_reduce_bytes(job, code),
        offload=job.parallel.offload_parameters,
        accumulation=accumulation,
        no_sync=no_sync and accumulation > 1,
        loaded="meta" if name in _FROM_META else "device" if loaded_whole(job, name) else "host",
    )


def _zero(job: Job, accumulation: int) -> ZeroOptions:
    from oomph.predict.sharding.zero_flat import ZeroOptions

    parallel, precision = job.parallel, job.precision
    stage = int(parallel.strategy[-1])
    if stage == 1 and precision.grads == "fp32" and ITEM_BYTES[precision.weights] < ITEM_BYTES["fp32"]:
        raise UsageError(
            "unsupported: ZeRO-1 with gradients accumulated in fp32 beside weights of lower precision "
            "(DeepSpeed's BF16_Optimizer); leave precision.grads out, or choose ZeRO-2."
        )
    return ZeroOptions(
        stage=stage,
        reduce_bucket=parallel.zero_reduce_bucket,
        prefetch_bucket=parallel.zero_prefetch_bucket,
        max_live=parallel.zero_max_live_parameters,
        max_reuse=parallel.zero_max_live_parameters,
        persistence=parallel.zero_persistence_threshold,
        contiguous=parallel.zero_contiguous_gradients,
        overlap=parallel.zero_overlap_comm,
        comm_bytes=None if precision.reduce is None else ITEM_BYTES[precision.reduce],
        grad_bytes=None if precision.grads is None else ITEM_BYTES[precision.grads],
        offload_optimizer=job.optimizer.offload in ("cpu", "nvme"),
        offload_parameters=parallel.offload_parameters,
        accumulation=accumulation,
        recomputes=job.checkpointing.mode != "none",
    )
