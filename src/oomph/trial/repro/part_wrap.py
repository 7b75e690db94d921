"""How the model is shared among ranks, in a plain loop."""

from __future__ import annotations

from oomph.job.model import Job
from oomph.trial.repro.part_model import TORCH

_SHARDING = {
    "fsdp1_full_shard": "FULL_SHARD",
    "fsdp1_shard_grad_op": "SHARD_GRAD_OP",
    "fsdp1_no_shard": "NO_SHARD",
    "fsdp1_hybrid_shard": "HYBRID_SHARD",
}
_PREFETCH = {"pre": "BACKWARD_PRE", "post": "BACKWARD_POST"}
_BLOCKS = '''\
def blocks_of(module):
    """The layers: the members of the outermost lists of modules."""
    for child in module.children():
        if isinstance(child, torch.nn.ModuleList):
            yield from child
        else:
            yield from blocks_of(child)


'''


def imports(job: Job) -> list[str]:
    """Lines of imports."""
    strategy, lines = job.parallel.strategy, []
    if strategy == "ddp":
        lines.append("from torch.nn.parallel import DistributedDataParallel")
    if strategy.endswith("hybrid_shard"):
        lines.append("from torch.distributed.device_mesh import init_device_mesh")
    if strategy.startswith("fsdp2"):
        names = ["MixedPrecisionPolicy", "fully_shard"]
        if job.parallel.offload_parameters:
            names.insert(0, "CPUOffloadPolicy")
        lines.append(f"from torch.distributed.fsdp import {', '.join(names)}")
    if strategy.startswith("fsdp1"):
        names = ["BackwardPrefetch", "CPUOffload", "MixedPrecision", "ShardingStrategy"]
        lines.append("from torch.distributed.fsdp import FullyShardedDataParallel")
        lines.append(f"from torch.distributed.fsdp import {', '.join(names)}")
        lines.append("from torch.distributed.fsdp.wrap import ModuleWrapPolicy")
    return lines


def function(job: Job) -> str:
    """`wrapped(model, device)`."""
    strategy = job.parallel.strategy
    head = [
        "def wrapped(model, device):",
        '    """The model on the device, shared among ranks as in the job."""',
    ]
    if strategy == "ddp":
        return "\n".join([*head, *_ddp(job)]) + "\n"
    if strategy.startswith("fsdp2"):
        return _BLOCKS + "\n".join([*head, *_fsdp2(job)]) + "\n"
    if strategy.startswith("fsdp1"):
        return _BLOCKS + "\n".join([*head, *_fsdp1(job)]) + "\n"
    return "\n".join([*head, "    return model.to(device)"]) + "\n"


def mixed(job: Job) -> tuple[str | None, str | None]:
    """FSDP's types of gathered parameters and of reduced gradients; None: as they are stored."""
    precision = job.precision
    half = precision.compute in ("bf16", "fp16") and precision.weights not in ("bf16", "fp16")
    reduce = precision.reduce and TORCH[precision.reduce]
    return (TORCH[precision.compute] if half else None), reduce or None


def _ddp(job: Job) -> list[str]:
    parallel = job.parallel
    more = []
    if parallel.ddp_bucket_bytes != 25 << 20:
        more.append(f"        bucket_cap_mb={parallel.ddp_bucket_bytes / 2**20!r},")
    if parallel.gradient_as_bucket_view:
        more.append("        gradient_as_bucket_view=True,")
    return [
        "    return DistributedDataParallel(",
        "        model.to(device),",
        '        device_ids=[device.index] if device.type == "cuda" else None,',
        *more,
        "    )",
    ]


def _mesh(job: Job) -> list[str]:
    size = job.parallel.shard_size or 1
    return [
        f"    shape = (torch.distributed.get_world_size() // {size}, {size})",
        '    mesh = init_device_mesh(device.type, shape, mesh_dim_names=("replicate", "shard"))',
    ]


def _fsdp2(job: Job) -> list[str]:
    parallel = job.parallel
    param, reduce = mixed(job)
    lines = _mesh(job) if parallel.strategy == "fsdp2_hybrid_shard" else []
    lines.append("    how = {")
    if param or reduce:
        lines.append(
            f'        "mp_policy": MixedPrecisionPolicy(param_dtype={param}, reduce_dtype={reduce}),'
        )
    else:
        lines.append('        "mp_policy": MixedPrecisionPolicy(),')
    lines.append(f'        "reshard_after_forward": {parallel.strategy != "fsdp2_no_reshard"},')
    if lines[0].startswith("    shape"):
        lines.append('        "mesh": mesh,')
    if parallel.offload_parameters:
        lines.append('        "offload_policy": CPUOffloadPolicy(),')
    lines.append("    }")
    if parallel.units != "root":
        lines += ["    for block in blocks_of(model):", "        fully_shard(block, **how)"]
    if parallel.units == "blocks_and_embeddings":
        lines += [
            "    for module in (model.get_input_embeddings(), model.get_output_embeddings()):",
            "        fully_shard(module, **how)",
        ]
    return [*lines, "    return fully_shard(model, **how)"]


def _fsdp1(job: Job) -> list[str]:
    parallel = job.parallel
    param, reduce = mixed(job)
    lines = _mesh(job) if parallel.strategy == "fsdp1_hybrid_shard" else []
    hybrid = bool(lines)
    lines += [
        "    return FullyShardedDataParallel(",
        "        model,",
        f"        sharding_strategy=ShardingStrategy.{_SHARDING[parallel.strategy]},",
    ]
    if parallel.units != "root":
        lines.append("        auto_wrap_policy=ModuleWrapPolicy({type(each) for each in blocks_of(model)}),")
    if param or reduce:
        lines.append(f"        mixed_precision=MixedPrecision(param_dtype={param}, reduce_dtype={reduce}),")
    if parallel.backward_prefetch != "pre":
        name = _PREFETCH.get(parallel.backward_prefetch)
        lines.append(f"        backward_prefetch={f'BackwardPrefetch.{name}' if name else None},")
    if parallel.forward_prefetch:
        lines.append("        forward_prefetch=True,")
    if not parallel.limit_all_gathers:
        lines.append("        limit_all_gathers=False,")
    if parallel.offload_parameters:
        lines.append("        cpu_offload=CPUOffload(offload_params=True),")
    if hybrid:
        lines.append("        device_mesh=mesh,")
    return [
        *lines,
        f"        use_orig_params={parallel.use_orig_params is not False},",
        "        device_id=device,",
        "    )",
    ]
