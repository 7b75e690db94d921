"""What a step costs in time: an estimate for comparing jobs, from FLOPs and bandwidths.

    step = accumulation x (compute + split) + hidden traffic's rest + optimizer + host

    compute  = max(FLOPs / (peak of the compute type x USE), bytes of weights x 3 / memory bandwidth, launches)
               + bytes of dequantised weights / memory bandwidth
    split    = tensor parallelism's bytes / link (nothing hides them)
    traffic  = gathers, reductions and offloaded tensors / their link, beside compute: only what lasts longer counts
    optimizer = bytes that the step reads and writes / memory bandwidth
    host     = bytes that a step on the host reads and writes / HOST_BYTES

Peaks and bandwidths are what vendors publish (`hardware.costs`); USE is what large matrix products reach of them. The
result is good for a ratio between two jobs on one machine; as seconds it is a rough guess. docs/remedies.md.
"""

from __future__ import annotations

from dataclasses import dataclass

from oomph.hardware.costs import link_bytes
from oomph.hardware.gpus import Gpu
from oomph.hardware.names import gpu as gpu_named
from oomph.hardware.names import machine_type
from oomph.job.model import ITEM_BYTES, Job
from oomph.remedy.changes.cards import card, per_node
from oomph.remedy.changes.written import ON_TRAINER, dialect
from oomph.remedy.work import Work, work_of

#: Share of the peak that training of dense transformers reaches: 40 to 60 % in published runs.
USE = 0.5
#: Bytes a second of one host's memory that a fused CPU optimizer reaches; assumed.
HOST_BYTES = 100e9
#: Seconds between kernel launches, and kernels of one layer in forward and backward together; assumed.
LAUNCH, KERNELS = 5e-6, 120
#: Bytes a second of a link that is not known (PCIe 3.0 x16).
_SLOW = 16e9
_STAND_IN = "a100-80gb"


@dataclass(frozen=True)
class Cost:
    """One optimizer step. `tokens`: of all ranks. `parts`: (name, seconds), which sum up to `seconds`. `assumptions`:
    what stood in for what is not known."""

    seconds: float
    tokens: int
    parts: tuple[tuple[str, float], ...]
    assumptions: tuple[str, ...] = ()

    @property
    def per_token(self) -> float:
        """Seconds per token of the whole job: comparable where the batch differs."""
        return self.seconds / max(1, self.tokens)


#: Name of a part -> how it is counted, for people.
FORMULAS = {
    "products and attention": "(6 P N + attention) / (peak x 0.5); at least the launches, and reading the weights",
    "recomputation": "the forward of the checkpointed blocks again",
    "dequantisation": "(stored + 2 x wide bytes) per weight and pass / memory bandwidth",
    "pipeline bubble": "(stages - 1) / micro-batches of the compute",
    "tensor parallel": "bytes of 4 reductions of the hidden states per layer / link",
    "communication": "gathers and reductions / link, as far as compute does not hide them",
    "host link": "bytes of offloaded tensors / PCIe, as far as compute does not hide them",
    "optimizer": "bytes of weights, gradients and states, as often as the step passes over them / memory bandwidth",
    "paged states": "bytes of states, in and out again / PCIe: as if all of them had to make room in every step",
    "step on the host": "bytes of weights, gradients and states / 100 GB/s per node",
}


def cost(job: Job) -> Cost:
    """The estimate. Raises UsageError for a model of an unknown family."""
    work = work_of(job)
    rates = _Rates.of(job)
    parts: dict[str, float] = {}
    micro = _compute(job, work, rates, parts)
    hidden = micro * job.batch.accumulation
    _communication(job, work, rates, parts, hidden)
    _host_link(job, work, rates, parts, hidden)
    _optimizer(job, work, rates, parts)
    tokens = work.tokens * job.parallel.context * job.batch.accumulation * job.parallel.data
    kept = tuple((name, value) for name, value in parts.items() if value > 0)
    return Cost(sum(parts.values()), tokens, kept, rates.assumptions)


@dataclass(frozen=True)
class _Rates:
    flops: float
    memory: float
    host: float
    inside: float
    between: float
    node: int
    assumptions: tuple[str, ...]

    @classmethod
    def of(cls, job: Job) -> _Rates:
        """The job's card and machine; what is not known is assumed, and said."""
        said = []
        its = card(job)
        if its is None or its.bandwidth_bytes is None:
            said.append(f"speeds are those of one {_STAND_IN}")
            its = gpu_named(_STAND_IN)
        node = per_node(job)
        inside = link_bytes(its.costs, node)
        if inside is None:
            said.append("the link between GPUs is taken to be PCIe 3.0")
        network = _network(job)
        if network is None and job.parallel.ranks > node:
            said.append("the network between nodes is taken to be 100 Gbit/s")
        return cls(
            _flops(its, job.precision.compute) * USE,
            float(its.bandwidth_bytes or 0) or 1e12,
            float(its.costs.host_link_bytes or _SLOW),
            float(inside or _SLOW),
            min(float(network or 12.5e9), float(inside or _SLOW)),
            node,
            tuple(said),
        )

    def link(self, ranks: int) -> float:
        """Bytes a second of a ring over so many ranks."""
        return self.inside if ranks <= self.node else self.between


def _flops(its: Gpu, dtype: str) -> float:
    """Peak of a type, or of the next wider one that is known."""
    order = {
        "fp8": ("fp8", "bf16", "fp16"),
        "bf16": ("bf16", "fp32"),
        "fp16": ("fp16", "fp32"),
        "tf32": ("tf32", "fp32"),
    }
    for each in order.get(dtype, ("fp32",)):
        found = its.tflops(each)
        if found:
            return found * 1e12
    return 20e12


def _network(job: Job) -> int | None:
    return machine_type(job.hardware.machine).network_bytes if job.hardware.machine else None


def _compute(job: Job, work: Work, rates: _Rates, parts: dict[str, float]) -> float:
    """Seconds of one micro-batch, written into `parts` for all of them."""
    steps = job.batch.accumulation
    plain = (work.forward + work.backward) / rates.flops
    launches = 0.0 if job.compile else work.layers * KERNELS * LAUNCH
    plain = max(plain, 3 * work.weights / rates.memory, launches)
    again = plain * work.recompute / (work.forward + work.backward)
    wide = work.dequantize / rates.memory
    parts["products and attention"] = plain * steps
    parts["recomputation"] = again * steps
    parts["dequantisation"] = wide * steps
    micro = plain + again + wide
    if job.parallel.pipeline > 1:
        parts["pipeline bubble"] = micro * (job.parallel.pipeline - 1)
    if job.parallel.tensor > 1:
        size = work.tokens * work.hidden * ITEM_BYTES[job.precision.compute]
        share = 2 * (job.parallel.tensor - 1) / job.parallel.tensor
        passes = 4 + (2 if work.recompute else 0)
        parts["tensor parallel"] = (
            passes * work.layers * size * share / rates.link(job.parallel.tensor) * steps
        )
    return micro


def _communication(job: Job, work: Work, rates: _Rates, parts: dict[str, float], hidden: float) -> None:
    """Gathers of parameters and reductions of gradients in one step."""
    ranks, steps = job.parallel.data * job.parallel.context, job.batch.accumulation
    if ranks < 2:
        return
    strategy = job.parallel.strategy
    share = (ranks - 1) / ranks
    reduced = work.gradients * share
    reductions = steps if _reduces_each(job) else 1
    link = rates.link(ranks * job.parallel.tensor)
    if strategy in ("fsdp1_full_shard", "fsdp2_full", "zero3"):
        seconds = (2 * work.weights * share * steps + reduced * reductions) / link
    elif strategy in ("fsdp1_shard_grad_op", "fsdp2_no_reshard"):
        seconds = (work.weights * share * steps + reduced * reductions) / link
    elif strategy in ("fsdp1_hybrid_shard", "fsdp2_hybrid_shard"):
        group = job.parallel.shard_size or rates.node
        across = 2 * work.gradients / max(1, group) / rates.link(ranks * job.parallel.tensor)
        inside = 2 * work.weights * steps + work.gradients * reductions
        seconds = inside / rates.link(group) + across
    elif strategy == "zero2":
        seconds = (reduced * steps + work.trainable * ITEM_BYTES[job.precision.compute] * share) / link
    else:  # DDP, NO_SHARD and ZeRO-1: gradients are reduced once and, for ZeRO-1, parameters gathered
        seconds = 2 * reduced / link
    parts["communication"] = max(0.0, seconds - hidden)


def _reduces_each(job: Job) -> bool:
    """Whether FSDP reduces gradients after every micro-batch: where the job says so, and in loops of its own."""
    asked = job.parallel.sync_each_batch
    return dialect(job) not in (*ON_TRAINER, "accelerate", "litgpt") if asked is None else asked


def _host_link(job: Job, work: Work, rates: _Rates, parts: dict[str, float], hidden: float) -> None:
    """What goes over PCIe in one step, and the step on the host."""
    steps = job.batch.accumulation
    ranks = max(1, job.parallel.data * job.parallel.context)
    sharded = ranks if job.parallel.strategy not in ("none", "ddp", "fsdp1_no_shard") else 1
    moved = 2 * work.saved * steps if job.activation_offload else 0.0
    on_host = job.optimizer.offload in ("cpu", "nvme") or job.parallel.offload_parameters
    if job.parallel.offload_parameters:
        moved += (2 * work.weights * steps + work.gradients) / sharded
    elif on_host:
        moved += (work.gradients + work.trainable * ITEM_BYTES[job.precision.weights]) / sharded
    parts["host link"] = max(0.0, moved / rates.host - hidden)
    if job.optimizer.offload == "paged":
        # Nothing runs beside it: the step needs the pages, and forward and backward need the room that they are in.
        parts["paged states"] = 2 * 2 * work.trainable * _state_bytes(job) / sharded / rates.host
    if on_host:
        ranks_of_node = min(ranks, rates.node)
        touched = 28.0 * work.trainable / sharded * ranks_of_node
        parts["step on the host"] = touched / HOST_BYTES


def _optimizer(job: Job, work: Work, rates: _Rates, parts: dict[str, float]) -> None:
    """A fused step passes once over all; foreach and loops about three times, operator by operator."""
    if job.optimizer.offload in ("cpu", "nvme") or job.parallel.offload_parameters:
        return
    ranks = max(1, job.parallel.data * job.parallel.context)
    sharded = ranks if job.parallel.strategy not in ("none", "ddp", "fsdp1_no_shard") else 1
    item = ITEM_BYTES[job.precision.weights] if job.method.name == "full" else 4.0
    each = 2 * item + work.gradients / max(1.0, work.trainable) + 4 * _state_bytes(job)
    passes = 1.0 if job.optimizer.impl in ("fused", "bnb", "bnb_paged", "torchao") else 3.0
    parts["optimizer"] = passes * each * work.trainable / sharded / rates.memory


def _state_bytes(job: Job) -> float:
    return ITEM_BYTES[job.optimizer.state or job.precision.weights]
