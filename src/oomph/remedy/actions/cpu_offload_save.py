"""Save without gathering the whole model on the card."""

from __future__ import annotations

import re

from oomph.diagnose.case import Case
from oomph.diagnose.model import Finding, Step
from oomph.remedy.actions.base import Action
from oomph.remedy.setup import setup_of
from oomph.remedy.words import must_free

_FSDP2 = re.compile(r"get_model_state_dict|get_state_dict|checkpoint[/\\]state_dict\.py")
_FSDP1 = re.compile(r"full_state_dict|_state_dict_utils|fully_sharded_data_parallel", re.IGNORECASE)
_STATE_DICT_API = (
    "from torch.distributed.checkpoint import state_dict\n\n"
    "# the full dict is on rank 0 only\n"
    "options = state_dict.StateDictOptions(full_state_dict=True, cpu_offload=True)\n"
    "state = state_dict.get_model_state_dict(model, options=options)"
)
_FSDP1_CONFIG = (
    "from torch.distributed.fsdp import FullStateDictConfig, StateDictType\n"
    "from torch.distributed.fsdp import FullyShardedDataParallel as FSDP\n\n"
    "config = FullStateDictConfig(offload_to_cpu=True, rank0_only=True)\n"
    "with FSDP.state_dict_type(model, StateDictType.FULL_STATE_DICT, config):\n"
    "    state = model.state_dict()"
)
_PLAIN = (
    "state = model.state_dict()\n"
    "state = {name: tensor.detach().cpu() for name, tensor in state.items()}\n"
    "torch.save(state, path)"
)
_SETTINGS = {
    "deepspeed": (
        '"zero_optimization": {"stage3_gather_16bit_weights_on_model_save": false}\n'
        "# afterwards, on the CPU: python zero_to_fp32.py . pytorch_model.bin"
    ),
    "lightning": 'FSDPStrategy(state_dict_type="sharded")',
    "axolotl": "fsdp_config:\n  fsdp_state_dict_type: SHARDED_STATE_DICT",
}


class CpuOffloadSave(Action):
    """Full state dict to the CPU on rank 0, or a sharded checkpoint."""

    code = "cpu-offload-save"
    title = "Gather the state dict on the CPU of rank 0, or save it sharded"

    def step(self, case: Case, finding: Finding) -> Step:
        del finding
        setup = setup_of(case)
        text = (
            f"{must_free(case)} Saving a full state dict puts whole parameters on the card beside "
            "everything that training holds. Written shard by shard, or moved to the CPU tensor by tensor, "
            "it needs no more than one of them. Check the last file, too: after a failed gather it may be "
            "incomplete."
        )
        return self.make(
            text,
            _paste(case, setup.dialect, setup.frameworks),
            outcomes=(
                (
                    "If it passes",
                    "load the new file on a CPU and compare its keys and shapes with the model's",
                ),
                ("If host memory runs out instead", "use a sharded checkpoint, which no rank gathers"),
            ),
        )


def _paste(case: Case, dialect: str, frameworks: frozenset[str]) -> str:
    if "Failed to clone() tensor" in case.failure.quote.text:
        return _FSDP1_CONFIG
    if case.frame_matching(_FSDP2) is not None or "fsdp2" in frameworks:
        return _STATE_DICT_API
    if dialect in _SETTINGS:
        return _SETTINGS[dialect]
    if "fsdp" in frameworks and dialect in ("transformers", "accelerate"):
        return "fsdp_state_dict_type: SHARDED_STATE_DICT   # in the accelerate config"
    if case.frame_matching(_FSDP1) is not None or "fsdp" in frameworks:
        return _FSDP1_CONFIG
    return _PLAIN
