"""Saving gathers or copies the model on the device."""

from __future__ import annotations

import re

from oomph.diagnose.case import Case
from oomph.diagnose.model import Certainty, RuledOut
from oomph.diagnose.rules.base import Match, Rule
from oomph.evidence.model import Kind
from oomph.phases import Phase
from oomph.units import format_bytes

_GATHER = re.compile(
    r"_state_dict_utils|_full_post_state_dict_hook|get_(?:model|optimizer)?_?state_dict|full_optim_state_dict|"
    r"_gather_state_dict|consolidat|_zero3_consolidated|_optim_state_dict|full_state_dict|redistribute|full_tensor"
)
_CLONE = "Failed to clone() tensor"


class CheckpointSaveGather(Rule):
    """See the class attributes: they are the rule's documentation."""

    code = "OOM206"
    cause = "checkpoint_save_gather"
    name = "saving-gathers-the-model-on-the-gpu"
    means = (
        "A full state dict is collected (or cloned) on the GPU before it is written: for a sharded model that is the "
        "whole model beside its shards."
    )
    decisive_evidence = (
        "Frames of the saving or of a state dict being gathered; or FSDP's warning that it could not clone a "
        "tensor."
    )
    first_action = (
        "Gather to the CPU on rank 0 only, or write a sharded checkpoint; then check the file that was "
        "written."
    )
    verify = "The save passes, and every tensor of the saved file loads with its shape and finite values."
    wrong_advice = (
        "Taking the warning as harmless: where the clone failed, the file may hold wrong or missing tensors."
    )
    actions = ("cpu-offload-save",)

    def check(self, case: Case) -> Match | RuledOut | None:
        if case.kind not in (Kind.DEVICE_OOM, Kind.DEVICE_OOM_BARE) or case.phase is not Phase.SAVE:
            return None
        request = case.request_bytes
        numbers = {"request_bytes": request} if request else {}
        if _CLONE in case.failure.quote.text:
            return Match(
                Certainty.CERTAIN,
                f"FSDP could not clone {_tensors(len(case.group.prints))} of the state dict for lack of "
                f"memory and went "
                "on: the checkpoint that it wrote may be incomplete.",
                weight=0.5,
                numbers=numbers,
            )
        frame = case.frame_matching(_GATHER)
        says = "Memory ran out while a checkpoint was being saved"
        if frame is not None:
            says += f": {frame.function} collects the full state on the GPU"
        if request:
            says += f" ({format_bytes(request)})"
        return Match(Certainty.LIKELY, says + ".", weight=0.8 if frame is not None else 0.7, numbers=numbers)


def _tensors(count: int) -> str:
    return "a tensor" if count == 1 else f"{count} tensors"
