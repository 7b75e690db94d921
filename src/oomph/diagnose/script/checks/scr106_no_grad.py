"""Evaluation that builds a graph."""

from __future__ import annotations

import libcst as cst

from oomph.diagnose.model import Certainty
from oomph.diagnose.script.base import Found, ScriptCheck
from oomph.diagnose.script.escapes import escapes
from oomph.diagnose.script.evaluation import Forward, evaluates, forwards, named_for_evaluation
from oomph.diagnose.script.gradient import backwards
from oomph.diagnose.script.model import Edit, ScriptProblem
from oomph.evidence.script.source import Script


class EvaluationWithoutNoGrad(ScriptCheck):
    """See the class attributes: they are the check's documentation."""

    code = "SCR106"
    cause = "evaluation_without_no_grad"
    name = "evaluation-without-no-grad"
    means = (
        "A forward of evaluation runs with gradients on: all activations are kept as in training, for a backward that "
        "never comes, and with them whatever a loop collects."
    )
    decisive_evidence = (
        "The model is called after model.eval(), or in a function that evaluates, and nothing around it or around "
        "every call of the function switches gradients off."
    )
    first_action = "@torch.no_grad() on the function, or `with torch.no_grad():` around the loop."
    verify = "The peak of evaluation falls to about the weights and one batch's logits."
    wrong_advice = "model.eval(): it changes dropout and norms, and builds the graph all the same."

    def check(self, script: Script) -> Found:
        seen: set[int] = set()
        for one in forwards(script):
            key = id(one.function) if isinstance(one.function, cst.FunctionDef) else id(one.switch)
            if not one.grad or key in seen or not evaluates(script, one):
                continue
            seen.add(key)
            leaves = isinstance(one.function, cst.FunctionDef) and escapes(script, one.call, one.function)
            yield ScriptProblem(
                says=f"{one.model} is called in evaluation with gradients on.",
                does="What is returned or kept holds the graph, and with it every activation of the pass; "
                "model.eval() does not change that."
                if leaves
                else "Every activation is kept for a backward that never comes; model.eval() does not change that.",
                fix="Switch gradients off around it, unless somebody runs backward through what it returns."
                if leaves
                else "Switch gradients off around it.",
                paste="@torch.no_grad()"
                if isinstance(one.function, cst.FunctionDef)
                else "with torch.no_grad():",
                subject=one.model,
                certainty=Certainty.CERTAIN if one.switch is not None and not leaves else Certainty.LIKELY,
                evidence=(script.quote(one.call),),
                edits=() if leaves else _decorated(script, one),
            )


def _decorated(script: Script, one: Forward) -> tuple[Edit, ...]:
    """A decorator on a function that does nothing but evaluate, by its name and by all that it does. Above another
    decorator (staticmethod, a fixture) it could break what that one makes of the function."""
    function = one.function
    if not isinstance(function, cst.FunctionDef) or one.switch is None or function.asynchronous is not None:
        return ()
    if function.decorators or not named_for_evaluation(function.name.value):
        return ()
    trains = [
        call for call in script.methods("step", "zero_grad", "train") if script.function(call) is function
    ] or backwards(script, function)
    # model.train() at the end, once evaluation is over, is what a well-kept function does.
    last = max([script.begin(other.call) for other in forwards(script) if other.function is function])
    if any([script.begin(call) < last or _method(call) != "train" for call in trains]):
        return ()
    inner = any(
        [
            node is not function and script.inside(node, function)
            for node in (*script.of(cst.FunctionDef), *script.of(cst.ClassDef))
        ]
    )
    if inner or _yields(script, function) or not _is_torch(script, function):
        return ()
    start = script.begin(function)
    line = script.text.encode()[:start].rpartition(b"\n")[2].decode()
    if line.strip():
        return ()
    return (Edit(start, start, f"@torch.no_grad()\n{line}"),)


def _method(call: cst.Call) -> str:
    return call.func.attr.value if isinstance(call.func, cst.Attribute) else ""


def _yields(script: Script, function: cst.FunctionDef) -> bool:
    return any([script.function(node) is function for node in script.of(cst.Yield)])


def _is_torch(script: Script, function: cst.FunctionDef) -> bool:
    """Whether a plain `import torch` of the module stands before the function: not in a `try`, not in a function."""
    return any(
        [
            alias.evaluated_name.split(".")[0] == "torch" and alias.asname is None
            for node in script.of(cst.Import)
            if script.begin(node) < script.begin(function)
            and isinstance(script.parent(node), cst.SimpleStatementLine)
            and script.parent(script.parent(node) or node) is script.module
            for alias in node.names
        ]
    )
