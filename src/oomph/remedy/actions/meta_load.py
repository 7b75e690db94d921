"""Build the model without a full copy on every rank."""

from __future__ import annotations

from oomph.diagnose.case import Case
from oomph.diagnose.model import Finding, Step
from oomph.phases import Phase
from oomph.remedy.actions.base import Action
from oomph.remedy.setup import setup_of
from oomph.remedy.words import must_free

_SETTINGS = {
    "accelerate": "fsdp_config:\n  fsdp_cpu_ram_efficient_loading: true\n  fsdp_sync_module_states: true",
    "transformers": 'fsdp_config={"cpu_ram_efficient_loading": True, "sync_module_states": True},',
    "deepspeed": "with deepspeed.zero.Init(config_dict_or_path=ds_config):\n    model = Model(config)",
}
_PLAIN = (
    'with torch.device("meta"):\n'
    "    model = Model(config)\nfor block in model.blocks:\n    fully_shard(block)\nfully_shard(model)\n"
    'model.to_empty(device="cuda")\n'
    "set_model_state_dict(model, state, options=StateDictOptions(full_state_dict=True, broadcast_from_rank0=True))"
)


class MetaLoad(Action):
    """Meta device, shard, then load."""

    code = "meta-load"
    title = "Create the model on the meta device, shard it, then load the weights"

    def applies(self, case: Case) -> bool:
        """Only while loading, and only with ranks to shard over."""
        return case.phase in (Phase.LOAD, Phase.INIT, Phase.UNKNOWN) and setup_of(case).world != 1

    def step(self, case: Case, finding: Finding) -> Step:
        del finding
        text = (
            f"{must_free(case)} Moving the whole model to the GPU before it is sharded needs room for all "
            "of it on every rank. On the meta device it needs none, and each rank then allocates only its "
            "shard."
        )
        return self.make(
            text,
            _SETTINGS.get(setup_of(case).dialect, _PLAIN),
            outcomes=(
                (
                    "If it loads and the first step fails",
                    "the shards fit, the step does not: explain that log",
                ),
            ),
        )
