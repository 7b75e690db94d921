"""sync_module_states=True."""

from __future__ import annotations

import libcst as cst

from oomph.diagnose.machine.model import Severity
from oomph.diagnose.script.base import Found, ScriptCheck
from oomph.diagnose.script.facts import FSDP1
from oomph.diagnose.script.model import ScriptProblem
from oomph.evidence.script.source import Script, argument


class SyncModuleStates(ScriptCheck):
    """See the class attributes: they are the check's documentation."""

    code = "SCR111"
    cause = "sync_module_states"
    name = "sync-module-states-saves-no-gpu-memory"
    means = (
        "sync_module_states=True broadcasts rank 0's weights. It saves no GPU memory; it saves main memory only where "
        "the other ranks build the model on the meta device instead of loading it."
    )
    decisive_evidence = "The argument in the call of FSDP."
    first_action = (
        "Nothing, if the weights are to be rank 0's. For main memory: load on rank 0, meta on the others."
    )
    verify = "Resident memory of ranks other than 0 while loading."
    wrong_advice = "sync_module_states as a way to less GPU memory."

    def check(self, script: Script) -> Found:
        for call in script.called(*FSDP1):
            value = argument(call, "sync_module_states")
            # With the other ranks on meta it is what it is for.
            if isinstance(value, cst.Name) and value.value == "True" and not _has_meta(script):
                yield ScriptProblem(
                    says="sync_module_states=True broadcasts rank 0's weights; it frees no GPU memory.",
                    does="Every rank still loads the model into main memory here, unless what builds it does not.",
                    fix="To save main memory, build the model under torch.device('meta') on ranks other than 0, with a "
                    "param_init_fn.",
                    subject="FSDP",
                    severity=Severity.NOTE,
                    evidence=(script.quote(value),),
                )


def _has_meta(script: Script) -> bool:
    return any(
        [
            isinstance(node.evaluated_value, str) and node.evaluated_value == "meta"
            for node in script.of(cst.SimpleString)
        ]
    ) or bool(script.called("accelerate.init_empty_weights"))
