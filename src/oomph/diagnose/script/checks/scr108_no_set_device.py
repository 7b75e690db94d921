"""A job of several ranks that never says which GPU is whose."""

from __future__ import annotations

import libcst as cst

from oomph.diagnose.machine.model import Severity
from oomph.diagnose.model import Certainty
from oomph.diagnose.script.base import Found, ScriptCheck
from oomph.diagnose.script.facts import DDP, FSDP1, FSDP2, INIT, managed
from oomph.diagnose.script.model import ScriptProblem
from oomph.evidence.script.source import Script, argument, dotted, text_of
from oomph.evidence.script.variables import environment_key

_SETS = (
    "torch.cuda.set_device",
    "torch.accelerator.set_device_index",
    "torch.accelerator.set_device_idx",
    "torch.cuda.device",
    # A mesh on "cuda" sets the device of a rank that has set none.
    "torch.distributed.device_mesh.init_device_mesh",
    "torch.distributed.init_device_mesh",
    "deepspeed.init_distributed",
    "deepspeed.initialize",
)

_LOCAL_RANK = 'int(os.environ["LOCAL_RANK"])'


class NoSetDevice(ScriptCheck):
    """See the class attributes: they are the check's documentation."""

    code = "SCR108"
    cause = "no_set_device"
    name = "no-set-device"
    means = (
        "Several ranks run the script, and it never sets its device: what says only `cuda` goes to GPU 0 from every "
        "rank, and collectives without a tensor (barrier, object lists) use it too. GPU 0 holds a context of each "
        "rank, or all of their memory."
    )
    decisive_evidence = (
        "The script begins a process group on GPUs, and has no torch.cuda.set_device, no device_id, nothing that "
        "chooses the device for it."
    )
    first_action = 'torch.cuda.set_device(int(os.environ["LOCAL_RANK"])), before anything touches a GPU.'
    verify = "nvidia-smi shows one process on each GPU."
    wrong_advice = "A smaller batch because GPU 0 is full."

    def check(self, script: Script) -> Found:
        starts = script.called(*INIT)
        wraps = script.called(*DDP, *FSDP1, *FSDP2)
        if not starts or managed(script) or script.called(*_SETS):
            return
        backend = [argument(call, "backend", 0) for call in starts]
        words = [text_of(one) for one in backend]
        on_gpu = any([word is not None and "nccl" in word for word in words])
        if not on_gpu and any([word is not None for word in words]):
            return
        if any([_names_device(call) for call in starts]) or _visible_by_rank(script):
            return
        bare = _bare(script)
        if all([isinstance(script.function(call), cst.FunctionDef) for call in starts]) and not _runs(script):
            return
        # A file that only begins the process group may be called by one that sets the device; a backend that is a
        # variable may be gloo.
        uses = bare or (
            wraps or _moves(script) if on_gpu or not any([one is not None for one in backend]) else []
        )
        if not uses:
            return
        at = next(
            (call for call, word in zip(starts, words, strict=True) if word and "nccl" in word), starts[0]
        )
        rank = _rank_before(script, at)
        yield ScriptProblem(
            says=(
                f"No device is set in a job of several ranks, and line {script.quote(bare[0]).line} says just `cuda`."
                if bare
                else "No device is set in a job of several ranks."
            ),
            does=(
                "Every rank uses GPU 0: its memory is needed once for each rank of the node, and NCCL refuses two "
                "ranks on one GPU."
                if bare
                else "Collectives without a tensor and whatever says just `cuda` use GPU 0 from every rank: a context "
                "of each rank there (some hundred MiB each)."
            ),
            fix="Set the device before the process group begins.",
            paste=f"torch.cuda.set_device({rank or _LOCAL_RANK})",
            subject="set_device",
            severity=Severity.ERROR if bare else Severity.WARNING,
            certainty=Certainty.LIKELY,
            evidence=(script.quote(at), *[script.quote(one) for one in bare[:1]]),
        )


def _runs(script: Script) -> bool:
    """Whether the file is a program, by its main block or a function that it calls itself: of a library's helper, the
    caller may set the device."""
    if any(
        [
            isinstance(node.test, cst.Comparison) and "__main__" in script.code(node.test)
            for node in script.of(cst.If)
        ]
    ):
        return True
    own = {node.name.value for node in script.of(cst.FunctionDef)}
    return any([script.function(call) is script.module and dotted(call.func) in own for call in script.calls])


def _names_device(call: cst.Call) -> bool:
    return argument(call, "device_id") is not None or any([one.star == "**" for one in call.args])


def _visible_by_rank(script: Script) -> bool:
    """Whether the script itself gives each rank its GPU by CUDA_VISIBLE_DEVICES."""
    return any(
        [
            text_of(environment_key(script, target.target)) == "CUDA_VISIBLE_DEVICES"
            for node in script.of(cst.Assign)
            for target in node.targets
        ]
    )


def _bare(script: Script) -> list[cst.CSTNode]:
    """Uses of `cuda` without an index."""
    found: list[cst.CSTNode] = [
        call
        for call in script.methods("cuda")
        if not [one for one in call.args if one.keyword is None] and argument(call, "device") is None
    ]
    found += [call for call in script.methods("to") if text_of(argument(call, "device", 0)) == "cuda"]
    found += [
        call
        for call in script.called("torch.device")
        if text_of(argument(call, "", 0)) == "cuda" and argument(call, "index", 1) is None
    ]
    return sorted(found, key=script.begin)


def _moves(script: Script) -> list[cst.Call]:
    """What goes to a GPU by an index or a variable."""
    found = [call for call in script.methods("cuda", "to") if call.args]
    return [
        call
        for call in found
        if not script.means(call.func, "torch.cuda") and "float" not in script.code(call.args[0].value)
    ]


def _rank_before(script: Script, at: cst.Call) -> str:
    """A name that holds LOCAL_RANK at that place; "" without one."""
    for node in script.of(cst.Assign):
        if script.begin(node) > script.begin(at):
            break
        if "LOCAL_RANK" in script.code(node.value) and script.function(node) in (
            script.function(at),
            script.module,
        ):
            name = dotted(node.targets[0].target)
            if name and isinstance(node.value, cst.Call) and dotted(node.value.func) == "int":
                return name
    return ""
