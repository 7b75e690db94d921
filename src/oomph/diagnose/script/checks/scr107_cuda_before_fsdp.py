"""model.cuda(), then FSDP(model)."""

from __future__ import annotations

import libcst as cst

from oomph.diagnose.machine.model import Severity
from oomph.diagnose.model import Certainty
from oomph.diagnose.script.base import Found, ScriptCheck
from oomph.diagnose.script.facts import FSDP1, FSDP2
from oomph.diagnose.script.model import ScriptProblem
from oomph.evidence.script.source import Script, argument, dotted, text_of

_DTYPES = ("torch.bfloat16", "torch.float16", "torch.half", "torch.float32", "torch.float", "torch.float64")
_DEVICE_WORDS = ("device", "local_rank", "rank", "gpu", "cuda")


class CudaBeforeFsdp(ScriptCheck):
    """See the class attributes: they are the check's documentation."""

    code = "SCR107"
    cause = "cuda_before_fsdp"
    name = "cuda-before-fsdp"
    means = (
        "The model is moved to the GPU before FSDP shards it: every rank holds all of it for that moment, and the peak "
        "of loading is that of a model that is not sharded."
    )
    decisive_evidence = "model.cuda() or model.to(device) stands before the call that shards the same name."
    first_action = (
        "Leave the move out. FSDP1: device_id=, with the model on the CPU and a wrap policy. FSDP2: build it under "
        'torch.device("meta"), fully_shard, then to_empty.'
    )
    verify = "The peak of loading falls to the shard and one unit."
    wrong_advice = "More GPUs: each still holds the whole model first."

    def check(self, script: Script) -> Found:
        for call in script.called(*FSDP1, *FSDP2):
            model = argument(call, "module", 0)
            if model is None:
                continue
            move = self._move(script, call, model)
            if move is None:
                continue
            at, certainty = move
            first = script.means(call.func, *FSDP1)
            yield ScriptProblem(
                says=f"{script.code(model).splitlines()[0][:60]} is moved to the GPU before FSDP shards it.",
                does="Every rank holds the whole model on its GPU first: loading peaks as without sharding.",
                fix=(
                    "Leave the move out and give FSDP device_id: it moves one unit at a time."
                    if first
                    else "Leave the move out: shard on the meta device, then to_empty and load."
                ),
                paste="device_id=torch.cuda.current_device()" if first else 'model.to_empty(device="cuda")',
                subject=dotted(model) or "model",
                severity=Severity.WARNING,
                certainty=certainty,
                evidence=(script.quote(at), script.quote(call)),
            )

    def _move(
        self, script: Script, call: cst.Call, model: cst.BaseExpression
    ) -> tuple[cst.Call, Certainty] | None:
        if isinstance(model, cst.Call):
            certainty = _moves(script, model)
            return (model, certainty) if certainty is not None else None
        name = dotted(model)
        if not name:
            return None
        function = script.function(call)
        found: tuple[cst.Call, Certainty] | None = None
        for one in script.calls:
            if script.begin(one) >= script.begin(call) or script.function(one) is not function:
                continue
            parent = script.parent(one)
            made = isinstance(parent, cst.Assign) and any([dotted(t.target) == name for t in parent.targets])
            certainty = _moves(script, one)
            if certainty is not None and isinstance(one.func, cst.Attribute):
                receiver = one.func.value
                if dotted(receiver) == name or (made and isinstance(receiver, cst.Call)):
                    found = one, certainty
                    continue
            if made:
                found = (one, Certainty.CERTAIN) if _on_gpu(script, one) else None
        return found


def _moves(script: Script, call: cst.Call) -> Certainty | None:
    """Whether the call is .cuda(...) or .to(a device); None: it is not, or it does not move to a GPU."""
    if not isinstance(call.func, cst.Attribute):
        return None
    if call.func.attr.value == "cuda":
        return Certainty.CERTAIN
    if call.func.attr.value != "to":
        return None
    target = argument(call, "device", 0)
    return None if target is None else _is_gpu(script, target, call)


def _is_gpu(script: Script, target: cst.BaseExpression, at: cst.CSTNode) -> Certainty | None:
    if isinstance(target, cst.Integer):
        return Certainty.CERTAIN
    text = text_of(target)
    if text is not None:
        return Certainty.CERTAIN if text.startswith("cuda") else None
    if isinstance(target, cst.FormattedString):
        return Certainty.CERTAIN if "cuda" in script.code(target) else None
    if script.means(target, *_DTYPES):
        return None
    if isinstance(target, cst.Call) and script.means(target.func, "torch.device"):
        inner = argument(target, "", 0)
        return _is_gpu(script, inner, at) if inner is not None else None
    if isinstance(target, cst.Call) and script.means(target.func, "torch.cuda.current_device"):
        return Certainty.CERTAIN
    name = dotted(target)
    value = _assigned(script, name, at) if name else None
    if value is not None:
        if isinstance(value, cst.IfExp):
            return Certainty.LIKELY if "cuda" in script.code(value) else None
        if isinstance(value, (cst.SimpleString, cst.FormattedString)) or (
            isinstance(value, cst.Call)
            and script.means(value.func, "torch.device", "torch.cuda.current_device")
        ):
            return _is_gpu(script, value, at)
    word = name.rpartition(".")[2].lower()
    return Certainty.LIKELY if any([part in word for part in _DEVICE_WORDS]) else None


def _assigned(script: Script, name: str, at: cst.CSTNode) -> cst.BaseExpression | None:
    """The value that a name got last before a place, in its function or in the module."""
    found: cst.BaseExpression | None = None
    for node in script.of(cst.Assign):
        if script.begin(node) < script.begin(at) and script.function(node) in (
            script.function(at),
            script.module,
        ):
            if any([dotted(one.target) == name for one in node.targets]):
                found = node.value
    return found


def _on_gpu(script: Script, call: cst.Call) -> bool:
    """Whether what makes the model puts it onto the GPU: device_map="auto", {"": 0}."""
    device_map = argument(call, "device_map")
    if device_map is None:
        return False
    text = text_of(device_map)
    if text is not None:
        return text not in ("cpu", "meta", "disk")
    if isinstance(device_map, cst.Dict):
        return not any(["cpu" in script.code(device_map), "meta" in script.code(device_map)])
    return False
