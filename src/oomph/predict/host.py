"""RAM that a node needs: for the weights on their way to the GPUs, and for what is kept on the host while training.

Python, the CUDA driver and data loaders come on top.
"""

from __future__ import annotations

from collections.abc import Sequence

from oomph.job.families import dimensions
from oomph.job.model import ITEM_BYTES, Job
from oomph.predict.model import Host
from oomph.predict.sharding.base import Unit, UnitParameter
from oomph.predict.sharding.choose import group_of
from oomph.predict.sharding.sharded_qlora import is_sharded
from oomph.predict.sharding.shards import pieces

#: GPUs of a node where the job does not say.
_PER_NODE = 8
#: Whose models are made on the meta device: each rank reads its shards straight from the checkpoint.
_FROM_META = frozenset(("torchtitan", "torchtune"))
#: Tensors of the size of the parameters that an optimizer keeps.
_STATES = {"adamw": 2, "adam": 2, "sgd": 0, "adafactor": 0, "lion": 1, "muon": 1}
#: Defaults of DeepSpeed's zero/offload_config.py: buffers of the optimizer's swapper.
_SWAP_BUFFERS = 4
_SUB_GROUP = 1_000_000_000


def pinned(size_bytes: int) -> int:
    """What page-locked memory takes: PyTorch rounds each request up to a power of two (aten/src/ATen/core/
    CachingHostAllocator.h)."""
    return 1 << (size_bytes - 1).bit_length() if size_bytes > 0 else 0


def host_of(job: Job, units: Sequence[Unit]) -> Host:
    """RAM of a node at load and while training, with its parts. Ranks of a node are taken to start at once."""
    node = min(job.hardware.per_node or _PER_NODE, max(1, job.parallel.ranks))
    load = _loading(job, units, node)
    kept = [(name, node * size) for name, size in (*_kept(job, units), *_activations(job)) if size]
    return Host(
        sum(size for _, size in load),
        sum(size for _, size in kept),
        tuple(part for part in (*load, *kept) if part[1]),
    )


def _loading(job: Job, units: Sequence[Unit], node: int) -> list[tuple[str, int]]:
    """Each rank reads all weights for itself before they are moved or sharded, but for what is made on the meta
    device, and 4-bit weights under FSDP1 (sharded_qlora.py). (accelerate's cpu_ram_efficient_loading leaves one copy of
    others too, where it was asked for.)"""
    if job.framework.name.lower() in _FROM_META and job.parallel.strategy.startswith("fsdp2"):
        return [("weights at load, read shard by shard", 0)]
    whole = sum(each.resident_bytes for unit in units for each in unit.parameters)
    if is_sharded(job) and job.parallel.strategy.startswith("fsdp1"):
        return [("quantised weights at load, of the machine's first rank", whole)]
    name = "weights at load" if node == 1 else f"weights at load, a copy for each of {node} ranks"
    return [(name, node * whole)]


def _kept(job: Job, units: Sequence[Unit]) -> list[tuple[str, int]]:
    """Of one rank, while it trains."""
    strategy, offload = job.parallel.strategy, job.optimizer.offload
    if strategy.startswith("zero") and (offload != "none" or job.parallel.offload_parameters):
        return _zero(job, units)
    if job.parallel.offload_parameters:
        return _fsdp(job, units)
    trains = [each for unit in units for each in unit.parameters if each.trainable]
    if (
        offload == "cpu"
    ):  # torchao's CPUOffloadOptimizer: parameters and gradients in pinned memory beside the states
        copies = sum(
            pinned(each.resident_bytes) + pinned(int(each.numel * each.grad_bytes)) for each in trains
        )
        return [("pinned parameters and gradients", copies), ("optimizer states", _states(job, trains))]
    if offload == "paged":  # unified memory: moved to the host when the GPU runs short
        return [("paged optimizer states, when moved out", _states(job, trains))]
    return []


def _activations(job: Job) -> list[tuple[str, int]]:
    """Inputs of checkpointed layers, where they are on the host: one of tokens x width for each layer."""
    if not job.activation_offload:
        return []
    dims, parallel = dimensions(job.model), job.parallel
    tokens = job.batch.micro * (job.batch.sequence or 1) // parallel.context
    if parallel.sequence_parallel:
        tokens //= parallel.tensor
    low = ITEM_BYTES[job.precision.compute] <= 2
    stays = job.precision.autocast and not parallel.strategy.startswith(("fsdp", "zero"))
    item = 2 if low and not (stays and job.precision.weights == "fp32") else 4
    return [("pinned inputs of layers", dims["layers"] * pinned(tokens * dims["hidden"] * item))]


def _states(job: Job, parameters: Sequence[UnitParameter]) -> int:
    count = (
        1 if job.optimizer.name == "sgd" and job.optimizer.momentum else _STATES.get(job.optimizer.name, 2)
    )
    state = job.optimizer.state
    return sum(
        count * int(each.numel * (each.weight_bytes if state is None else ITEM_BYTES[state]))
        for each in parameters
    )


def _fsdp(job: Job, units: Sequence[Unit]) -> list[tuple[str, int]]:
    """Shards, their gradients and the states; FSDP1 pins one flat shard of a unit, FSDP2 each parameter's."""
    ranks = group_of(job).ranks
    flat = job.parallel.strategy.startswith("fsdp1")
    shards = grads = states = 0
    for unit in units:
        trains = [each for each in unit.parameters if each.trainable]
        frozen = [each for each in unit.parameters if not each.trainable]
        for kind in (trains, frozen) if flat else ([each] for each in unit.parameters):
            shards += pinned(pieces(sum(each.resident_bytes for each in kind), ranks))
            size = sum(int(each.numel * each.weight_bytes) for each in kind if each.trainable)
            grads += pinned(pieces(size, ranks))
        states += pieces(_states(job, trains), ranks)
    return [
        ("pinned parameter shards", shards),
        ("pinned gradient shards", grads),
        ("optimizer states", states),
    ]


def _zero(job: Job, units: Sequence[Unit]) -> list[tuple[str, int]]:
    """deepspeed/runtime/zero/stage_1_and_2.py and stage3.py (0.19): masters and their gradients in fp32, and
    buffers in the type of the parameters, page-locked; states of DeepSpeedCPUAdam in fp32. On NVMe masters and
    states are not in RAM, but four buffers of the largest sub-group are (swap_tensor/optimizer_utils.py)."""
    stage3 = job.parallel.strategy == "zero3"
    ranks = group_of(job).ranks
    trains = [each for unit in units for each in unit.parameters if each.trainable]
    share = sum(pieces(each.numel, ranks) for each in trains)
    item = max((each.weight_bytes for each in trains), default=0.0)
    parts: list[tuple[str, int]] = []
    offload = job.optimizer.offload
    if offload in ("cpu", "nvme"):
        if offload == "cpu":
            parts.append(("pinned fp32 masters and gradients", 2 * pinned(4 * share)))
            parts.append(("optimizer states", _STATES.get(job.optimizer.name, 2) * 4 * share))
        else:
            parts.append(
                ("pinned swap buffers of the optimizer", _SWAP_BUFFERS * pinned(4 * min(share, _SUB_GROUP)))
            )
        if stage3:
            grads = item if job.precision.grads is None else ITEM_BYTES[job.precision.grads]
            parts.append(("pinned gradient partitions", pinned(int(share * grads))))
        else:
            largest = max((each.numel for each in trains), default=0)
            parts.append(("pinned parameters on their way back", pinned(int(share * item))))
            parts.append(("pinned gradient on its way", pinned(int(largest * item))))
    if job.parallel.offload_parameters:
        frozen = [each for unit in units for each in unit.parameters if not each.trainable]
        parts.append(("pinned parameter partitions", pinned(int(share * item))))
        parts.append(
            ("pinned frozen partitions", sum(pinned(pieces(each.resident_bytes, ranks)) for each in frozen))
        )
    return parts
