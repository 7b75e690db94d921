"""Spreading states, gradients and parameters over the ranks that hold the same: ZeRO and FSDP."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec.structs import replace

from oomph.job.model import Job, Strategy
from oomph.phases import Phase
from oomph.remedy.changes.base import EVERYWHERE, Change, Numerics
from oomph.remedy.changes.written import dialect, written

_STAGE = (
    '"zero_optimization": {"stage": {stage}, "overlap_comm": false},   # ds.json\n'
    'deepspeed="ds.json",   # TrainingArguments'
)
_ZERO = {
    "transformers": _STAGE,
    "axolotl": "deepspeed: deepspeed_configs/{file}",
    "llamafactory": "deepspeed: examples/deepspeed/ds_z{stage}_config.json",
    "lightning": 'Trainer(..., strategy="deepspeed_stage_{stage}")',
    "accelerate": "distributed_type: DEEPSPEED\ndeepspeed_config:\n  zero_stage: {stage}",
    "megatron": "--use-distributed-optimizer",
    "": '"zero_optimization": {"stage": {stage}}   # of the configuration given to deepspeed.initialize',
}
_FSDP = {
    "transformers": 'fsdp=True,\nfsdp_config={"version": 2, "reshard_after_forward": {reshard}},',
    "axolotl": "fsdp_version: 2\nfsdp_config:\n  reshard_after_forward: {yaml}\n"
    "  auto_wrap_policy: TRANSFORMER_BASED_WRAP",
    "llamafactory": "accelerate launch --config_file examples/accelerate/fsdp2_config.yaml ...",
    "torchtitan": '[parallelism]\ndata_parallel_shard_degree = -1\nfsdp_reshard_after_forward = "{titan}"',
    "torchtune": "tune run --nproc_per_node {ranks} full_finetune_distributed --config ...",
    "lightning": 'Trainer(..., strategy="fsdp")',
    "accelerate": "distributed_type: FSDP\nfsdp_config:\n  fsdp_version: 2\n  fsdp_reshard_after_forward: {yaml}\n"
    "  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP",
    "": "from torch.distributed.fsdp import fully_shard\n\nfor block in model.blocks:\n"
    "    fully_shard(block, reshard_after_forward={reshard})\nfully_shard(model, reshard_after_forward={reshard})",
}
_OLD_FSDP = 'fsdp="{name} auto_wrap",'
#: What is spread: 1 states, 2 also gradients, 3 also parameters.
LEVEL: dict[Strategy, int] = {
    "none": 0,
    "ddp": 0,
    "fsdp1_no_shard": 0,
    "zero1": 1,
    "zero2": 2,
    "fsdp1_shard_grad_op": 2,
    "fsdp2_no_reshard": 2,
    "fsdp1_hybrid_shard": 3,
    "fsdp2_hybrid_shard": 3,
    "fsdp1_full_shard": 4,
    "fsdp2_full": 4,
    "zero3": 4,
}


@dataclass(frozen=True)
class Shard(Change):
    """`strategy` over the data ranks."""

    strategy: Strategy

    axis = "sharding"

    @property
    def code(self) -> str:
        """As the actions of `oomph explain`: the states, or everything."""
        return "shard-more" if LEVEL[self.strategy] == LEVEL["zero3"] else "shard-optimizer"

    @property
    def phases(self) -> frozenset[Phase]:
        """Parameters take memory in every phase; states and gradients from the first backward on."""
        if LEVEL[self.strategy] == LEVEL["zero3"]:
            return EVERYWHERE
        return EVERYWHERE - {Phase.LOAD, Phase.INIT}

    @property
    def numerics(self) -> Numerics:
        """DeepSpeed keeps half-precision weights beside its fp32 copy, where autocast casts fp32 ones."""
        return "close" if self.strategy.startswith("zero") else "unchanged"

    @property
    def title(self) -> str:
        """With its value."""
        return {
            "zero1": "ZeRO-1: optimizer states over the ranks",
            "zero2": "ZeRO-2: optimizer states and gradients over the ranks",
            "zero3": "ZeRO-3: states, gradients and parameters over the ranks",
            "fsdp2_no_reshard": "FSDP2 without resharding after forward",
            "fsdp2_full": "FSDP2: states, gradients and parameters over the ranks",
            "fsdp1_shard_grad_op": "FSDP, SHARD_GRAD_OP",
            "fsdp1_full_shard": "FSDP, FULL_SHARD",
        }[self.strategy]

    def applies(self, job: Job) -> str | None:
        """Where ranks hold the same, and less is spread now."""
        if job.parallel.data < 2:
            return "One rank has nobody to share with."
        if LEVEL[self.strategy] <= LEVEL[job.parallel.strategy]:
            return f"The strategy is {job.parallel.strategy} already."
        if job.method.name == "qlora" and self.strategy.startswith("zero"):
            return "4-bit weights and ZeRO do not go together for all stages; FSDP does."
        if job.optimizer.impl in ("bnb", "bnb_paged", "torchao") and self.strategy != "fsdp1_full_shard":
            return f"The optimizer ({job.optimizer.impl}) does not step such shards."
        return None

    def apply(self, job: Job) -> Job:
        """DeepSpeed keeps an fp32 copy of half-precision weights and has its own Adam; FSDP shards what is there."""
        parallel = replace(job.parallel, strategy=self.strategy)
        if not self.strategy.startswith("zero"):
            return replace(job, parallel=parallel)
        half = job.precision.compute if job.precision.compute in ("bf16", "fp16") else "bf16"
        if job.precision.compute in ("fp32", "tf32"):
            return replace(job, parallel=parallel)
        precision = replace(job.precision, weights=half, compute=half, autocast=False, master=True)
        optimizer = replace(job.optimizer, impl="fused", state="fp32")
        return replace(job, parallel=parallel, precision=precision, optimizer=optimizer)

    def lines(self, job: Job) -> tuple[str, ...]:
        """By framework."""
        if self.strategy.startswith("zero"):
            stage = self.strategy[-1]
            return written(
                job, _ZERO, stage=stage, file="zero3_bf16.json" if stage == "3" else f"zero{stage}.json"
            )
        full = LEVEL[self.strategy] == LEVEL["zero3"]
        if dialect(job) in ("transformers", "trl") and self.strategy.startswith("fsdp1"):
            return (_OLD_FSDP.replace("{name}", "full_shard" if full else "shard_grad_op"),)
        words = {"reshard": full, "yaml": str(full).lower(), "titan": "always" if full else "never"}
        return written(job, _FSDP, **words, ranks=job.parallel.data)

    def verify(self, job: Job) -> str:
        """The shard."""
        share = f"1/{job.parallel.data}"
        if LEVEL[self.strategy] == LEVEL["zero3"]:
            return f"After wrapping, memory_allocated() is about {share} of the weights on every rank."
        return f"memory_allocated() after the first step holds {share} of the optimizer states on every rank."
