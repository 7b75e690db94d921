"""Another process has to leave the card."""

from __future__ import annotations

from oomph.diagnose.case import Case
from oomph.diagnose.model import Finding, Step
from oomph.diagnose.processes import Neighbour
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
        known = _large(case)
        if known:
            who = ", ".join(
                f"pid {one.pid}" + (f" ({format_bytes(one.used_bytes)})" if one.used_bytes else "")
                for one in known
            )
            text = f"{who} {'is' if len(known) == 1 else 'are'} in the way."
            paste = _look(case, [one.pid for one in known])
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
            paste = f"{_LIST.get(case.failure.vendor, _LIST['cuda'])}\n{_look(case, [])}"
        text += (
            " Common ones are an earlier run that did not die, a notebook kernel and another user. Look "
            "from outside the container: inside, pids of others are not visible."
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


def _large(case: Case) -> list[Neighbour]:
    """The foreign processes that matter, largest first: bare contexts beside a large one are left out."""
    foreign = [one for one in case.neighbours.of("foreign") if one.pid > 0]
    foreign.sort(key=lambda one: -(one.used_bytes or 0))
    total = sum(one.used_bytes or 0 for one in foreign)
    large = [one for one in foreign if (one.used_bytes or 0) * 10 >= total]
    return large[:_SHOWN]


def _look(case: Case, pids: list[int]) -> str:
    """Commands that say whose the processes are, and stop one."""
    if case.platform == "windows":
        which = f' /FI "PID eq {pids[0]}"' if pids else ""
        return f"tasklist /V{which}\ntaskkill /PID <pid>   # if it is yours and nobody needs it"
    which = ",".join(str(pid) for pid in pids) or "<pid>"
    return f"ps -o pid,user,lstart,cmd -p {which}\nkill <pid>   # if it is yours and nobody needs it"
