"""cpu_offload=True."""

from __future__ import annotations

import libcst as cst

from oomph.diagnose.machine.model import Severity
from oomph.diagnose.script.base import Found, ScriptCheck
from oomph.diagnose.script.facts import FSDP1
from oomph.diagnose.script.model import Edit, ScriptProblem
from oomph.evidence.script.source import Script, argument

#: Place of cpu_offload among FullyShardedDataParallel's arguments (module is the first).
_PLACE = 3


class CpuOffloadBoolean(ScriptCheck):
    """See the class attributes: they are the check's documentation."""

    code = "SCR102"
    cause = "fsdp_cpu_offload_boolean"
    name = "fsdp-cpu-offload-boolean"
    means = (
        "FSDP1's `cpu_offload` is not a switch: it wants a CPUOffload. False is silently ignored, True ends with an "
        "AttributeError."
    )
    decisive_evidence = "The value of cpu_offload in the call is True or False."
    first_action = "cpu_offload=CPUOffload(offload_params=True), or leave the argument out."
    verify = (
        "With offloading, parameters are on the CPU between steps: next(model.parameters()).device says cpu."
    )
    wrong_advice = (
        "Offloading as the first thing against an OOM: it costs a copy of all parameters each step."
    )

    def check(self, script: Script) -> Found:
        for call in script.called(*FSDP1):
            value = argument(call, "cpu_offload", _PLACE)
            if not isinstance(value, cst.Name) or value.value not in ("True", "False"):
                continue
            on = value.value == "True"
            start, end = script.span(value)
            right = _offload(script)
            replacement = f"{right}(offload_params=True)" if on and right else "None"
            yield ScriptProblem(
                says=f"FSDP gets cpu_offload={value.value}, which is no CPUOffload.",
                does=(
                    "True has no attribute offload_params: the script ends there with an AttributeError."
                    if on
                    else "False is ignored: nothing is offloaded, as without the argument."
                ),
                fix="Say cpu_offload=CPUOffload(offload_params=True)." if on else "Leave the argument out.",
                paste="cpu_offload=CPUOffload(offload_params=True)" if on else "",
                subject="cpu_offload",
                severity=Severity.ERROR if on else Severity.WARNING,
                evidence=(script.quote(value),),
                edits=(Edit(start, end, replacement),) if right or not on else (),
            )


def _offload(script: Script) -> str:
    """How CPUOffload can be written with what the script imports; "" where an import would be needed."""
    full = "torch.distributed.fsdp.CPUOffload"
    for node in script.of(cst.ImportFrom):
        if isinstance(node.names, cst.ImportStar):
            continue
        for alias in node.names:
            if alias.evaluated_name == "CPUOffload" and script.imports("torch.distributed.fsdp"):
                return alias.evaluated_alias or "CPUOffload"
    # `from torch.distributed.fsdp import ...` loads the module, and a plain `import torch` gives its name.
    plain = any(
        [
            alias.evaluated_name.split(".")[0] == "torch" and alias.asname is None
            for one in script.of(cst.Import)
            for alias in one.names
        ]
    )
    return full if plain and script.imports("torch.distributed.fsdp") else ""
