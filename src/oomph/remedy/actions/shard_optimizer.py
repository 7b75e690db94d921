"""Optimizer states spread over the ranks."""

from __future__ import annotations

from oomph.diagnose.case import Case
from oomph.diagnose.model import Finding, Step
from oomph.remedy.actions.base import Action
from oomph.remedy.setup import Setup, setup_of
from oomph.remedy.words import must_free, params_words
from oomph.units import format_bytes

_SETTINGS = {
    "deepspeed": '"zero_optimization": {"stage": 1}',
    "transformers": 'deepspeed="zero1.json",   # with {"zero_optimization": {"stage": 1}, ...}',
    "axolotl": "deepspeed: deepspeed_configs/zero1.json",
    "colossalai": "from colossalai.booster.plugin import LowLevelZeroPlugin\n\nplugin = LowLevelZeroPlugin(stage=1)",
    "lightning": 'Trainer(..., strategy="deepspeed_stage_2")',
    "megatron": "--use-distributed-optimizer",
    "torchtune": "tune run --nproc_per_node <gpus> full_finetune_distributed --config <config>",
}
_PLAIN = (
    "from torch.distributed.optim import ZeroRedundancyOptimizer\n\n"
    "optimizer = ZeroRedundancyOptimizer(\n"
    "    model.parameters(), optimizer_class=torch.optim.AdamW, lr=lr\n"
    ")"
)

_ZERO_OFFLOAD = '"zero_optimization": {"offload_optimizer": {"device": "cpu"}}'
_COLOSSALAI_OFFLOAD = (
    "from colossalai.booster.plugin import LowLevelZeroPlugin\n\n"
    "plugin = LowLevelZeroPlugin(stage=2, cpu_offload=True)"
)
_FSDP_OFFLOAD = (
    "from torch.distributed.fsdp import CPUOffloadPolicy\n\nfully_shard(model, "
    "offload_policy=CPUOffloadPolicy())   # parameters go with the states"
)


class ShardOptimizer(Action):
    """ZeRO-1/2 or FSDP for the states."""

    code = "shard-optimizer"
    title = "Shard the optimizer states over the ranks"

    def applies(self, case: Case) -> bool:
        """Where there may be several ranks; sharded states can still be offloaded, once."""
        setup = setup_of(case)
        return setup.world != 1 and not (setup.sharded_optimizer and setup.offload)

    def step(self, case: Case, finding: Finding) -> Step:
        del finding
        setup = setup_of(case)
        if setup.sharded_optimizer:
            return self._offload(case, setup)
        states, frees = setup.adam_bytes, None
        whole = "ddp" in setup.frameworks
        text = must_free(case) + (
            " Under DDP every rank holds the whole optimizer state; sharded, each holds 1/N of it."
            if whole
            else " Unless the states are sharded already, every rank holds all of them; sharded, each holds 1/N."
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
            outcomes=(("If it still fails in the step", "keep the states in 8 bits, or offload them"),),
        )

    def _offload(self, case: Case, setup: Setup) -> Step:
        """The states are sharded: they get smaller with more ranks, or leave the card."""
        states = setup.adam_bytes
        text = (
            f"{must_free(case)} The states are sharded already, so a share gets smaller only with more ranks."
        )
        if states:
            text += f" Adam's two states take {format_bytes(states)} of each rank."
        text += (
            " Offloaded, each rank's share lies in host memory (12 bytes per parameter: fp32 weights and "
            "two states) and the step runs on the CPU, which is slower."
        )
        return self.make(
            text,
            _offload_setting(setup),
            title="Offload the sharded optimizer states to the CPU",
            frees_bytes=states,
            outcomes=(
                ("If host memory runs out instead", "shard over more GPUs, or keep the states in 8 bits"),
            ),
        )


def _offload_setting(setup: Setup) -> str:
    """What the job that shards its states is set up with: ColossalAI's plugin, DeepSpeed's config or FSDP's policy."""
    if setup.dialect == "colossalai":
        return _COLOSSALAI_OFFLOAD
    zero = setup.zero_stage is not None or "deepspeed" in setup.frameworks
    return _ZERO_OFFLOAD if zero else _FSDP_OFFLOAD
