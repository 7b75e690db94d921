"""Switches for debugging that are still on."""

from __future__ import annotations

from dataclasses import dataclass

from oomph.diagnose.machine.base import Check
from oomph.diagnose.machine.model import Answer, Asked, Clear, CouldNotTell, NotHere, Problem, Severity
from oomph.diagnose.machine.settings import in_effect, is_on
from oomph.evidence.environment.model import Variable


@dataclass(frozen=True)
class _Switch:
    """A variable: what it does when it is on. `any_value`: its presence alone counts, even as 0. `values`: it is on
    with one of these words."""

    does: str
    severity: Severity = Severity.WARNING
    any_value: bool = False
    values: tuple[str, ...] = ()


#: PYTORCH_NO_CUDA_MEMORY_CACHING: forceUncachedAllocator in c10/cuda/CUDACachingAllocator.cpp asks only whether it is
#: set. Eager loading: 0.92 GiB of context instead of 0.47 (A100-80, torch 2.1.1; stas00/ml-engineering).
_SWITCHES = {
    "PYTORCH_NO_CUDA_MEMORY_CACHING": _Switch(
        "Every tensor goes to cudaMalloc and cudaFree, which synchronise: training is many times slower, allocator "
        "settings and memory statistics mean nothing, and the peak is another.",
        any_value=True,
    ),
    "CUDA_LAUNCH_BLOCKING": _Switch(
        "Every kernel is waited for: nothing overlaps, and training is slower. Memory stays about the same."
    ),
    "TORCH_USE_CUDA_DSA": _Switch(
        "Nothing at run time: device-side assertions are compiled in or not, and the official wheels have none.",
        Severity.NOTE,
    ),
    "TORCH_DISTRIBUTED_DEBUG": _Switch(
        "Every collective is checked against the other ranks first, which costs time at each.",
        values=("detail",),
    ),
    "CUDA_MODULE_LOADING": _Switch(
        "All kernels are loaded at the start, outside PyTorch's allocator: about 0.45 GiB more on an A100 (a context "
        "of 0.92 instead of 0.47 GiB with PyTorch 2.1).",
        Severity.NOTE,
        values=("eager",),
    ),
    "NCCL_DEBUG": _Switch("NCCL prints every call.", values=("trace",)),
}


class DebuggingLeftOn(Check):
    """See the class attributes: they are the check's documentation."""

    code = "ENV421"
    cause = "debugging_left_on"
    name = "debugging-left-on"
    means = (
        "Variables that help to find an error make the job slower, or use memory another way: "
        "PYTORCH_NO_CUDA_MEMORY_CACHING switches the caching allocator off, CUDA_LAUNCH_BLOCKING waits for every "
        "kernel. Left in an image or a script they stay on for every job."
    )
    decisive_evidence = (
        "The variable is set to a value that turns it on (the first is on whatever its value is)."
    )
    first_action = "Remove the variable from the image or the script."
    verify = "`env` in the job no longer lists it; the step time falls."
    wrong_advice = (
        "PYTORCH_NO_CUDA_MEMORY_CACHING=1 against fragmentation; and =0 to switch it off: it has to be unset."
    )

    def check(self, asked: Asked) -> Answer:
        problems: list[Problem] = []
        fine = 0
        untold = ""
        for one in in_effect(asked.environment):
            switch = _SWITCHES.get(one.name)
            if switch is None:
                continue
            if one.value is None and not switch.any_value:
                untold = f"the text does not say what {one.name} becomes"
            elif _is_on(one, switch):
                problems.append(_problem(one, switch))
            else:
                fine += 1
        if problems:
            return tuple(problems)
        if untold:
            return CouldNotTell(untold)
        return Clear("switches for debugging are named and off") if fine else NotHere()


def _is_on(one: Variable, switch: _Switch) -> bool:
    if switch.any_value:
        return True
    if switch.values:
        return (one.value or "").strip().lower() in switch.values
    return is_on(one.value)


def _problem(one: Variable, switch: _Switch) -> Problem:
    odd = switch.any_value and not is_on(one.value)
    tail = ", and that it is set is all that counts: the caching allocator is off" if odd else " is left on"
    if switch.severity is Severity.NOTE:
        tail = " is set"
    return Problem(
        says=f"{one.name}={'' if one.value is None else one.value}{tail}.",
        does=switch.does,
        fix="Remove it.",
        paste=f"unset {one.name}",
        subject=one.name,
        severity=switch.severity,
        evidence=(one.quote,),
    )
