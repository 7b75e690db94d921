"""Optimizer states spread over the ranks."""

from __future__ import annotations

from oomph.diagnose.case import Case
from oomph.diagnose.model import Finding, Step
from oomph.remedy.actions.base import Action
from oomph.remedy.setup import setup_of
from oomph.remedy.words import must_free, params_words
from oomph.units import format_bytes

_SETTINGS = {
    "deepspeed": '"zero_optimization": {"stage": 1}',
    "transformers": 'deepspeed="zero1.json",   # with {"zero_optimization": {"stage": 1}, ...}',
    "axolotl": "deepspeed: deepspeed_configs/zero1.json",
    "lightning": 'Trainer(..., strategy="deepspeed_stage_2")',
    "megatron": "--use-distributed-optimizer",
    "torchtune": "tune run --nproc_per_node <gpus> full_finetune_distributed --config <config>",
}
_PLAIN = (
    "from torch.distributed.optim import ZeroRedundancyOptimizer\n\noptimizer = "
    "ZeroRedundancyOptimizer(model.parameters(), optimizer_class=torch.optim.AdamW, lr=lr)"
)


class ShardOptimizer(Action):
    """ZeRO-1/2 or FSDP for the states."""

    code = "shard-optimizer"
    title = "Shard the optimizer states over the ranks"

    def applies(self, case: Case) -> bool:
        """Where there are several ranks and the states are not sharded yet."""
        setup = setup_of(case)
        return setup.world != 1 and not setup.sharded_optimizer

    def step(self, case: Case, finding: Finding) -> Step:
        del finding
        setup = setup_of(case)
        states, frees = setup.adam_bytes, None
        text = (
            f"{must_free(case)} Every rank holds the whole optimizer state now; sharded, each holds 1/N of "
            "it."
        )
        if states and setup.trainable_params:
            text += (
                f" Adam's two states for {params_words(setup.trainable_params)} trained parameters take "
                f"{format_bytes(states)}"
            )
            if setup.world:
                frees = states * (setup.world - 1) // setup.world
                text += f", of which {format_bytes(frees)} leave each of {setup.world} ranks."
            else:
                text += "."
        if setup.world is None:
            text += " It needs more than one GPU."
        return self.make(
            text,
            _SETTINGS.get(setup.dialect, _PLAIN),
            frees_bytes=frees,
            outcomes=(("If it still fails in the step", "keep the states in 8 bits"),),
        )
