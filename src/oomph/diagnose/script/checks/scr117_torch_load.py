"""torch.load without map_location in a job of several ranks."""

from __future__ import annotations

import re

import libcst as cst

from oomph.diagnose.machine.model import Severity
from oomph.diagnose.model import Certainty
from oomph.diagnose.script.base import Found, ScriptCheck
from oomph.diagnose.script.facts import distributed
from oomph.diagnose.script.model import Edit, ScriptProblem
from oomph.evidence.script.source import Script, argument, dotted, spread

#: Words of a file, of the name it goes into or of the method it goes to, for what holds tensors of a GPU.
_CHECKPOINT = re.compile(
    r"ckpt|checkpoint|check_point|state|resume|weight|model|optim|snapshot|pretrained|\.pth\b",
    re.IGNORECASE,
)
_NONE_ON_A_GPU = re.compile(
    r"scaler|sched|feature|dataset|cached|rng|common\.pt|response|BytesIO|args\.bin|training_args",
    re.IGNORECASE,
)
#: Names of what copies in load_state_dict: modules and optimizers.
_COPIES = re.compile(r"model|net|module|optim")


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
            if not _is_checkpoint(script, call):
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


def _is_checkpoint(script: Script, call: cst.Call) -> bool:
    """Whether what is loaded holds the tensors of a model or an optimizer, by the words around it: features that were
    cached, the state of a scheduler or a scaler, and what a server sent hold none of a GPU."""
    near = script.code(call.args[0].value)
    into = ""
    for one in script.above(call):
        if isinstance(one, cst.Call):
            near += " " + script.code(one.func)
            into += " " + dotted(one.func)
        if isinstance(one, cst.BaseSmallStatement):
            if isinstance(one, cst.Assign):
                near += " " + script.code(one.targets[0].target)
            break
    if _NONE_ON_A_GPU.search(near) or _other_branch(script, call):
        return False
    return _CHECKPOINT.search(near) is not None or into.endswith("load_state_dict")


def _other_branch(script: Script, call: cst.Call) -> bool:
    """Whether the same file is loaded with a map_location in the other branch of an `if`: the author has told apart
    the case of several ranks."""
    path = script.code(call.args[0].value)
    return any(
        [
            argument(other, "map_location", 1) is not None
            and bool(other.args)
            and script.code(other.args[0].value) == path
            for other in script.called("torch.load", "torch.serialization.load")
        ]
    )


def _goes_into_state(script: Script, call: cst.Call) -> bool:
    """Whether what is loaded goes straight into load_state_dict of a model or an optimizer, which copies. With
    assign=True, and in an average of weights of one's own, it stays where it was loaded."""
    parent = script.parent(call)
    holder = script.parent(parent) if isinstance(parent, cst.Arg) else None
    if not isinstance(holder, cst.Call) or not isinstance(holder.func, cst.Attribute):
        return False
    if (
        holder.func.attr.value != "load_state_dict"
        or argument(holder, "assign") is not None
        or spread(holder)
    ):
        return False
    name = dotted(holder.func.value).lower()
    return _COPIES.search(name) is not None and "ema" not in name
