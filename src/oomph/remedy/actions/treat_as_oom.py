"""The NVML assertion stands for an out-of-memory error."""

from __future__ import annotations

from oomph.diagnose.case import Case
from oomph.diagnose.model import Finding, Step
from oomph.phases import Phase
from oomph.remedy.actions.base import Action
from oomph.remedy.setup import setup_of

_PHASES = {
    Phase.FORWARD: "a forward pass",
    Phase.BACKWARD: "a backward pass",
    Phase.LOAD: "loading",
    Phase.INIT: "start-up",
    Phase.OPTIMIZER: "the optimizer step",
    Phase.EVAL: "evaluation",
    Phase.GENERATE: "generation",
    Phase.SAVE: "saving",
}
_PASTE = (
    "nvidia-smi                                             # must work where the job runs\npython -c "
    "\"import ctypes; ctypes.CDLL('libnvidia-ml.so.1')\"   # must not fail either"
)


class TreatAsOom(Action):
    """Get the numbers back, and act on the phase."""

    code = "treat-as-oom"
    title = "Treat it as an out-of-memory error, and make NVML answer"

    def step(self, case: Case, finding: Finding) -> Step:
        del finding
        setup = setup_of(case)
        where = _PHASES.get(case.phase)
        at = f"an out-of-memory error of {where}" if where else "an out-of-memory error"
        recompute = " (in a checkpoint's recompute)" if case.phase_verdict.recompute else ""
        now = ""
        if case.phase in (Phase.FORWARD, Phase.BACKWARD):
            if setup.batch is not None and setup.batch > 1:
                now = f" The first change for it is a smaller micro-batch than {setup.batch}."
            elif setup.batch == 1 and not setup.checkpointing:
                now = " The micro-batch is 1, so the first change for it is activation checkpointing."
        text = (
            f"This is {at}{recompute} whose message could not be written.{now} Mending NVML changes "
            "nothing about the memory, but the next failure then says how much was asked for, how much was "
            "free and who held the rest. PyTorch 2.14 and later print the message without it."
        )
        return self.make(
            text,
            _PASTE,
            outcomes=(
                (
                    "If nvidia-smi says `Driver/library version mismatch`",
                    "the driver was updated under a running system: reboot or reload it",
                ),
                (
                    "If nvidia-smi is missing in the container",
                    "start it with the driver's utilities: NVIDIA_DRIVER_CAPABILITIES=compute,utility",
                ),
                ("If the job fails again with sizes", "explain that log"),
            ),
        )
