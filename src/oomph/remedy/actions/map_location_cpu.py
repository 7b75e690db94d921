"""Load a checkpoint on the CPU first."""

from __future__ import annotations

import re

from oomph.diagnose.case import Case
from oomph.diagnose.model import Finding, Step
from oomph.remedy.actions.base import Action
from oomph.remedy.words import must_free

_ON = re.compile(r"map_location\s*=\s*(?:torch\.device\()?['\"]cpu['\"]")
_PASTE = (
    "checkpoint = torch.load(\n"
    '    path, map_location="cpu", mmap=True, weights_only=True\n'
    ")\n"
    "# your keys may differ\n"
    'model.load_state_dict(checkpoint["model"])\n'
    'optimizer.load_state_dict(checkpoint["optimizer"])\n'
    "del checkpoint"
)


class MapLocationCpu(Action):
    """torch.load(..., map_location="cpu")."""

    code = "map-location-cpu"
    title = 'Load the checkpoint with map_location="cpu", then delete it'

    def applies(self, case: Case) -> bool:
        """Unless a frame's code says it already."""
        return not any(_ON.search(frame.code) for frame in case.frames)

    def step(self, case: Case, finding: Finding) -> Step:
        del finding
        text = (
            f"{must_free(case)} Without map_location every tensor goes back to the GPU it was saved from: "
            "a second copy of weights and optimizer states beside the model, and with several ranks all of "
            "them on cuda:0. From the CPU, load_state_dict copies into the tensors that exist."
        )
        return self.make(
            text,
            _PASTE,
            outcomes=(
                (
                    "If the load passes and the first step fails",
                    "something still refers to the checkpoint: delete it and every name for its parts",
                ),
                (
                    "If host memory runs out instead",
                    "load on one rank and broadcast, or use a sharded checkpoint",
                ),
            ),
        )
