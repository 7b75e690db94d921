"""What a rank takes on the GPU beside PyTorch's allocator: the CUDA context with its kernels, and NCCL, as ranges.

cuBLAS's and cuBLASLt's workspaces are allocated by PyTorch (aten/src/ATen/cuda/CublasHandlePool.cpp, since
1.13) and are part of what is allocated.
"""

from __future__ import annotations

from oomph.hardware.gpus import Gpu
from oomph.hardware.names import gpu as gpu_named
from oomph.hardware.outside import context_bytes
from oomph.hardware.tables import context
from oomph.job.model import Job
from oomph.predict.model import Outside
from oomph.units import GIB, MIB

#: A communicator that has worked once: 1.45 GiB beside the context (stas00/ml-engineering, training/performance:
#: 0.55 to 2.00 GiB at the first barrier of two GPUs), about 6 GB for a process with three or more (NVIDIA/nccl
#: issue 864). At the least next to nothing: 0.33 GiB with the context on an RTX 5090 (vllm issue 14452).
NCCL_HIGH_BYTES = int(1.45 * GIB)
#: The first all_to_all on 8 GPUs: 1.06 to 4.34 GB (NVIDIA/nccl issue 1685).
ALL_TO_ALL_HIGH_BYTES = int(3.28e9)
#: Buffers of NVLink SHARP on Hopper and later, for each communicator of GPUs of one node (NVIDIA/nccl issue 1410).
NVLS_HIGH_BYTES = 288 * MIB


def communicators(job: Job) -> int:
    """NCCL communicators of a rank that carry something on the GPU. One group of ranks is one communicator: the data
    ranks' (two where shards have replicas, and under DeepSpeed, which clones the group of all ranks: groups.py,
    _clone_world_group), and one each for tensor, context, pipeline and expert parallelism."""
    parallel = job.parallel
    data = 0
    if parallel.data > 1:
        twice = parallel.strategy.endswith("hybrid_shard") or parallel.strategy.startswith("zero")
        data = 2 if twice else 1
    others = (parallel.tensor, parallel.context, parallel.pipeline, parallel.expert)
    return data + sum(1 for size in others if size > 1)


def _engine_bytes(job: Job, gpu: Gpu | None) -> int:
    """What vLLM has of the card all the time, where it runs in the trainer's process and does not sleep (trl's
    vllm_generation.py: gpu_memory_utilization; vllm/v1/worker/gpu_worker.py: that share of all of the card)."""
    objective = job.objective
    if objective.rollouts != "vllm_colocate" or objective.vllm_sleep or gpu is None:
        return 0
    return int(objective.vllm_memory * gpu.total_bytes)


def outside_of(job: Job) -> Outside:
    """The ranges of one rank, and their sums. Raises UsageError for a GPU of which nothing is known (not
    NVIDIA's)."""
    gpu = gpu_named(job.hardware.gpu) if job.hardware.gpu else None
    known = context() if gpu is None else context_bytes(gpu)
    parts = [("CUDA context and kernels", known.low_bytes, known.high_bytes)]
    count = communicators(job)
    if count:
        name = "NCCL, one communicator" if count == 1 else f"NCCL, {count} communicators"
        parts.append((name, 0, count * NCCL_HIGH_BYTES))
        if gpu is not None and gpu.capability >= (9, 0) and job.parallel.ranks > 1:
            parts.append(("NCCL, NVLink SHARP", 0, count * NVLS_HIGH_BYTES))
    share = _engine_bytes(job, gpu)
    if share:
        parts.append(("vLLM's engine in the trainer's process", share, share))
    if job.parallel.expert > 1:
        parts.append(("NCCL, all-to-all between experts", 0, ALL_TO_ALL_HIGH_BYTES))
    return Outside(
        sum(low for _, low, _ in parts), sum(high for _, _, high in parts), tuple(parts), known.high_bytes
    )
