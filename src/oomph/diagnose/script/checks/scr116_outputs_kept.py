"""outputs.append(logits) through an evaluation."""

from __future__ import annotations

import libcst as cst

from oomph.diagnose.machine.model import Severity
from oomph.diagnose.model import Certainty
from oomph.diagnose.script.base import Found, ScriptCheck
from oomph.diagnose.script.evaluation import forwards
from oomph.diagnose.script.gradient import names_in
from oomph.diagnose.script.model import ScriptProblem
from oomph.evidence.script.source import Script, dotted

_LARGE = frozenset(
    ("logits", "hidden_states", "last_hidden_state", "pooler_output", "attentions", "prediction_logits")
)
#: What is left is small, or no longer on the GPU.
_SMALL = frozenset(
    ("argmax", "cpu", "item", "numpy", "tolist", "loss", "topk", "max", "mean", "sum", "detach_to_cpu")
)


class OutputsKeptOnTheGpu(ScriptCheck):
    """See the class attributes: they are the check's documentation."""

    code = "SCR116"
    cause = "outputs_kept_on_the_gpu"
    name = "outputs-kept-on-the-gpu"
    means = (
        "An evaluation collects what the model puts out, on the GPU, until it has gone through the data: memory grows "
        "with each batch, whatever the batch size."
    )
    decisive_evidence = "In the loop, logits or hidden states go into a list from before it, without .cpu()."
    first_action = "Reduce them in the loop (argmax, a metric), or append(....cpu())."
    verify = "Allocated memory after each batch of evaluation stays the same."
    wrong_advice = "A smaller evaluation batch: as many outputs are collected."

    def check(self, script: Script) -> Found:
        every = forwards(script)
        for call in script.methods("append", "extend"):
            assert isinstance(call.func, cst.Attribute)
            loops = script.loops(call)
            if not loops or len(call.args) != 1:
                continue
            made = {
                target
                for one in every
                if script.inside(one.call, loops[-1])
                for node in script.of(cst.Assign)
                if node.value is one.call or script.inside(one.call, node.value)
                for target in _names(node)
                if not _reduced(node.value)
            }
            made |= {
                target
                for node in script.of(cst.Assign)
                if script.inside(node, loops[-1]) and names_in(node.value) & made and _is_large(node.value)
                for target in _names(node)
            }
            value = call.args[0].value
            if not (names_in(value) & made) or _reduced(value):
                continue
            if not (_is_large(value) or isinstance(value, cst.Name)):
                continue
            target = script.code(call.func.value)
            if _begins_in(script, target, loops[0]):
                continue
            yield ScriptProblem(
                says=f"{script.code(value)} is collected on the GPU through the whole evaluation.",
                does="Memory grows by one batch's outputs with each batch.",
                fix="Reduce it in the loop, or move it to main memory.",
                paste=f"{script.code(call.func)}({script.code(value)}.cpu())",
                subject=target,
                severity=Severity.WARNING,
                certainty=Certainty.LIKELY,
                evidence=(script.quote(call),),
            )


def _names(node: cst.Assign) -> list[str]:
    found: list[str] = []
    for one in node.targets:
        if isinstance(one.target, (cst.Tuple, cst.List)):
            found += [dotted(element.value) for element in one.target.elements]
        else:
            found.append(dotted(one.target))
    return [name for name in found if name and name != "loss"]


def _is_large(node: cst.CSTNode) -> bool:
    """Whether an expression is a name, or outputs by the names that libraries give them."""
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
        # .detach(), .float(), .squeeze(): as large as what they are called on.
        return node.func.attr.value not in _SMALL and _is_large(node.func.value)
    if isinstance(node, cst.Attribute):
        return node.attr.value in _LARGE
    if isinstance(node, cst.Subscript):
        return isinstance(node.value, cst.Name)
    return isinstance(node, cst.Name)


def _reduced(node: cst.CSTNode) -> bool:
    if isinstance(node, cst.Attribute) and node.attr.value in _SMALL:
        return True
    if isinstance(node, cst.Name) and node.value in ("float", "int"):
        return True
    return any([_reduced(child) for child in node.children])


def _begins_in(script: Script, target: str, loop: cst.CSTNode) -> bool:
    return any(
        [
            script.inside(node, loop) and any([script.code(one.target) == target for one in node.targets])
            for node in script.of(cst.Assign)
        ]
    )
