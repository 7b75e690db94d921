"""Parameters, gradients and optimizer states spread over the ranks."""

from __future__ import annotations

from oomph.diagnose.case import Case
from oomph.diagnose.model import Finding, Step
from oomph.remedy.actions.base import Action
from oomph.remedy.setup import Setup, setup_of
from oomph.remedy.words import must_free, params_words
from oomph.units import format_bytes

_BYTES = {"fp32": 4, "fp16": 2, "bf16": 2}
_SETTINGS = {
    "transformers": 'fsdp="full_shard auto_wrap",   # or deepspeed= with a ZeRO stage 3 config',
    "axolotl": "deepspeed: deepspeed_configs/zero3_bf16.json",
    "torchtune": "tune run --nproc_per_node <gpus> full_finetune_distributed --config <config>",
    "torchtitan": "--parallelism.data_parallel_shard_degree -1",
    "megatron": "--tensor-model-parallel-size <twice of now>",
    "colossalai": "from colossalai.booster.plugin import GeminiPlugin\n\nplugin = GeminiPlugin()   # ZeRO-3",
    "lightning": 'Trainer(..., strategy="fsdp")',
    "deepspeed": '"zero_optimization": {"stage": 3}',
    "accelerate": "accelerate config   # choose FSDP, full shard",
}
_PLAIN = (
    "from torch.distributed.fsdp import fully_shard\n\nfor block in model.blocks:\n    "
    "fully_shard(block)\nfully_shard(model)"
)


class ShardMore(Action):
    """FSDP or ZeRO-3; where that is on, more ranks."""

    code = "shard-more"
    title = "Shard the parameters over the ranks"

    def applies(self, case: Case) -> bool:
        """Where more than one rank exists, or may."""
        return setup_of(case).world != 1

    def step(self, case: Case, finding: Finding) -> Step:
        del finding
        setup = setup_of(case)
        outcomes = (
            (
                "If it still fails while loading",
                "each rank builds the whole model first: create it on the meta device",
            ),
        )
        if setup.sharded_parameters:
            now = f" Now {setup.world} ranks hold 1/{setup.world} each;" if setup.world else ""
            text = (
                f"{must_free(case)} Parameters are sharded already, so a share gets smaller only with more "
                f"ranks.{now} twice the ranks halve weights, gradients and optimizer states per GPU."
            )
            return self.make(text, title="Shard over more GPUs", outcomes=outcomes)
        text = (
            f"{must_free(case)} Without sharding every rank holds all weights, gradients and optimizer "
            f"states; with FSDP or ZeRO stage 3 each holds 1/N.{_arithmetic(setup)}"
        )
        return self.make(
            text, _SETTINGS.get(setup.dialect, _PLAIN), frees_bytes=_frees(setup), outcomes=outcomes
        )


def _frees(setup: Setup) -> int | None:
    """The weights that leave a rank; gradients and states come on top."""
    width = _BYTES.get(setup.dtype)
    if width is None or not setup.params or not setup.world:
        return None
    return width * setup.params * (setup.world - 1) // setup.world


def _arithmetic(setup: Setup) -> str:
    frees = _frees(setup)
    if frees is None or not setup.params:
        return ""
    return (
        f" {params_words(setup.params)} parameters in {setup.dtype} over {setup.world} ranks: "
        f"{format_bytes(frees)} of weights less on each, gradients and states besides."
    )
