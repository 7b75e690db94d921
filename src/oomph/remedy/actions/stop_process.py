"""Another process has to leave the card."""

from __future__ import annotations

from oomph.diagnose.case import Case
from oomph.diagnose.model import Finding, Step
from oomph.remedy.actions.base import Action
from oomph.units import format_bytes

_SHOWN = 4
_LIST = {
    "cuda": "nvidia-smi --query-compute-apps=gpu_uuid,pid,process_name,used_memory --format=csv",
    "hip": "rocm-smi --showpids",
    "xpu": "xpu-smi ps",
}


class StopProcess(Action):
    """Find the neighbour and stop it, then run the job unchanged."""

    code = "stop-process"
    title = "Stop the other process on the card, then run the job unchanged"

    def step(self, case: Case, finding: Finding) -> Step:
        foreign = list(case.neighbours.of("foreign"))[:_SHOWN]
        listing = _LIST.get(case.failure.vendor, _LIST["cuda"])
        known = [one for one in foreign if one.pid > 0]
        if known:
            who = ", ".join(
                f"pid {one.pid}" + (f" ({format_bytes(one.used_bytes)})" if one.used_bytes else "")
                for one in known
            )
            pids = ",".join(str(one.pid) for one in known)
            text = f"{who} is in the way." if len(known) == 1 else f"{who} are in the way."
            paste = f"ps -o pid,user,lstart,cmd -p {pids}\nkill <pid>   # if it is yours and nobody needs it"
        else:
            held = next(
                (
                    size
                    for name, size in finding.numbers.items()
                    if name.endswith("_bytes") and "request" not in name
                ),
                None,
            )
            taken = f"About {format_bytes(held)} of the card" if held else "A part of the card"
            text = f"{taken} is neither free nor this job's PyTorch memory."
            paste = f"{listing}\nps -o pid,user,lstart,cmd -p <pid>\nkill <pid>   # if it is yours and nobody needs it"
        text += (
            " Common ones are an earlier run that did not die, a notebook kernel and another user. Run "
            "nvidia-smi outside the container: inside, pids of others are not visible."
        )
        return self.make(
            text,
            paste,
            outcomes=(
                ("If it is not yours", "take another card (CUDA_VISIBLE_DEVICES) or ask its owner"),
                (
                    "If the pid does not exist",
                    "it belongs to another container or is this job itself seen from outside",
                ),
                ("If the job still fails on an empty card", "the job itself is too large: explain that log"),
            ),
        )
