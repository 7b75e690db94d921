"""torch.load without map_location in a job of several ranks."""

from __future__ import annotations

from oomph.diagnose.machine.model import Severity
from oomph.diagnose.model import Certainty
from oomph.diagnose.script.base import Found, ScriptCheck
from oomph.diagnose.script.facts import distributed
from oomph.diagnose.script.model import Edit, ScriptProblem
from oomph.evidence.script.source import Script, argument, spread


class CheckpointLoadedOntoOneGpu(ScriptCheck):
    """See the class attributes: they are the check's documentation."""

    code = "SCR117"
    cause = "checkpoint_loaded_onto_one_gpu"
    name = "checkpoint-loaded-onto-one-gpu"
    means = (
        "torch.load puts tensors back on the device that they were saved from. A checkpoint of rank 0 goes onto GPU 0 "
        "in every rank's process: one copy for each, and a context of each, on that one card."
    )
    decisive_evidence = "The call has no map_location, and several ranks run the script."
    first_action = 'map_location="cpu"; load_state_dict copies to where the parameters are.'
    verify = "nvidia-smi shows one process on GPU 0 after loading."
    wrong_advice = "A smaller batch: it fails while loading."

    def check(self, script: Script) -> Found:
        if distributed(script) is None:
            return
        for call in script.called("torch.load", "torch.serialization.load"):
            if argument(call, "map_location", 1) is not None or spread(call) or not call.args:
                continue
            end = script.span(call.args[-1].value)[1]
            yield ScriptProblem(
                says="torch.load has no map_location in a job of several ranks.",
                does=(
                    "What was saved from cuda:0 is loaded onto GPU 0 by every rank: a copy and a CUDA context of each "
                    "rank there."
                ),
                fix='Say map_location="cpu".',
                paste='torch.load(path, map_location="cpu")',
                subject="torch.load",
                severity=Severity.WARNING,
                certainty=Certainty.LIKELY,
                evidence=(script.quote(call),),
                edits=(Edit(end, end, ', map_location="cpu"'),) if _goes_into_state(script, call) else (),
            )


def _goes_into_state(script: Script, call: object) -> bool:
    """Whether what is loaded goes straight into load_state_dict, which copies."""
    import libcst as cst

    assert isinstance(call, cst.Call)
    return any(
        [
            isinstance(one, cst.Call)
            and isinstance(one.func, cst.Attribute)
            and one.func.attr.value == "load_state_dict"
            for one in script.above(call)
        ]
    )
