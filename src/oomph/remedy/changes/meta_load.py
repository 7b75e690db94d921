"""Loading without a whole copy on every card or in every process."""

from __future__ import annotations

from dataclasses import dataclass

from oomph.job.model import Job
from oomph.phases import Phase
from oomph.remedy.changes.base import Change
from oomph.remedy.changes.written import ZERO, dialect, written

_LINES = {
    "transformers": 'fsdp_config={"cpu_ram_efficient_loading": True, ...},   # and no model.to("cuda") of your own',
    "axolotl": "fsdp_config:\n  cpu_ram_efficient_loading: true",
    "accelerate": "fsdp_config:\n  fsdp_cpu_ram_efficient_loading: true",
    "lightning": "with trainer.init_module(empty_init=True):\n    model = Model()",
    "": 'with torch.device("meta"):\n    model = Model(config)\nfor block in model.blocks:\n    fully_shard(block)\n'
    'fully_shard(model)\nmodel.to_empty(device="cuda")\n'
    "torch.distributed.checkpoint.state_dict.set_model_state_dict(   # from rank 0\n"
    "    model, weights, options=StateDictOptions(full_state_dict=True, broadcast_from_rank0=True))",
}
_ZERO = {
    "": "from transformers.integrations import HfDeepSpeedConfig\n\n"
    "keep = HfDeepSpeedConfig(ds_config)   # before from_pretrained, which then shards as it loads",
}


@dataclass(frozen=True)
class MetaLoad(Change):
    """The model is made on the meta device and gets its weights after it is sharded. The plan takes sharded jobs to
    load so already; this is what to check where a job fails in loading all the same."""

    code = "meta-load"
    axis = "load"
    phases = frozenset({Phase.INIT, Phase.LOAD})

    @property
    def title(self) -> str:
        """In words."""
        return "weights loaded after sharding, from rank 0"

    def applies(self, job: Job) -> str | None:
        """Where something shards parameters."""
        if job.parallel.strategy == "zero3" or job.parallel.strategy.startswith(("fsdp1", "fsdp2")):
            if dialect(job) in ("torchtitan", "torchtune"):
                return f"{job.framework.name} does so already."
            return None
        return f"Under {job.parallel.strategy} every card holds the whole model."

    def apply(self, job: Job) -> Job:
        """The plan's job is the same."""
        return job

    def lines(self, job: Job) -> tuple[str, ...]:
        """By framework."""
        return written(job, _ZERO if job.parallel.strategy in ZERO else _LINES)

    def verify(self, job: Job) -> str:
        """The level before training."""
        share = max(1, job.parallel.data)
        return f"max_memory_allocated() before the first step is about 1/{share} of the weights and the largest unit."


def options(job: Job) -> tuple[Change, ...]:
    """One."""
    del job
    return (MetaLoad(),)
