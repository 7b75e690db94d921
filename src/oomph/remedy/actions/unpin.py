"""Host memory that is not pinned."""

from __future__ import annotations

import re

from oomph.diagnose.case import Case
from oomph.diagnose.model import Finding, Step
from oomph.remedy.actions.base import Action
from oomph.remedy.setup import setup_of

_DEEPSPEED = re.compile(r"deepspeed|partition_parameters|stage3|stage_1_and_2")
_LOADER = re.compile(r"utils[/\\]data|dataloader|_pin_memory_loop|pin_memory_thread", re.IGNORECASE)


class Unpin(Action):
    """pin_memory off."""

    code = "unpin"
    title = "Turn pinned host memory off"

    def step(self, case: Case, finding: Finding) -> Step:
        del finding
        setup = setup_of(case)
        offload = case.fact("offload")
        deepspeed = "deepspeed" in setup.frameworks or case.frame_matching(_DEEPSPEED) is not None
        if case.frame_matching(_LOADER) is not None or (
            not deepspeed and offload is None and not case.frames
        ):
            where = "the data loader"
            paste = (
                "dataloader_pin_memory=False,"
                if setup.dialect == "transformers"
                else "DataLoader(..., pin_memory=False)"
            )
        elif deepspeed:
            where = "DeepSpeed's offload section"
            paste = (
                '"offload_optimizer": {"device": "cpu", "pin_memory": false},\n'
                '"offload_param": {"device": "cpu", "pin_memory": false}'
            )
        else:
            where = "the place that the last frame shows"
            paste = "tensor = tensor.cpu()   # without .pin_memory() and pin_memory=True"
        text = (
            f"Pinning happens in {where}. Unpinned buffers work the same and copy more slowly, and they do "
            "not need the driver to lock RAM. The card's memory is not involved."
        )
        if case.platform == "wsl2":
            text += (
                " WSL2 pins only a part of the virtual machine's memory; more memory for it (.wslconfig, "
                "memory=) raises that part."
            )
        return self.make(
            text,
            paste,
            outcomes=(
                (
                    "If it fails without pinning, with another message",
                    "host memory itself is short: free -h, and less offload",
                ),
                (
                    "If the same error comes from another call",
                    "check the free memory of the card at that point",
                ),
            ),
        )
