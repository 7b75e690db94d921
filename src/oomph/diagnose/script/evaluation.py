"""Forwards of evaluation: in a function that evaluates, or between model.eval() and model.train()."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from oomph.diagnose.script.escapes import escapes
from oomph.diagnose.script.gradient import backwards, covered
from oomph.evidence.script.source import Script, dotted

_NAMED = re.compile(
    r"(?:^|_)(?:eval|evaluate|evaluation|valid|validate|validation|val)(?:_|$)", re.IGNORECASE
)
#: Words of those who want gradients of an input or of a part.
_GRADIENTS = frozenset(
    ("requires_grad", "requires_grad_", "retain_grad", "grad", "register_hook", "register_full_backward_hook")
)
#: Methods that trainers call with gradients switched off.
_BY_TRAINERS = frozenset(
    ("validation_step", "test_step", "predict_step", "prediction_step", "compute_metrics", "evaluation_loop")
)


#: Functions whose callers want gradients, whatever mode their parts are in: a frozen tower in a module's forward.
_TRAINED_THROUGH = frozenset(("forward", "__call__", "training_step", "compute_loss", "loss", "get_loss"))
_TESTS = re.compile(
    r"(?:^|_)(?:test|testing|predict|prediction|infer|inference|generate|sample|score|embed|encode|extract)(?:_|$)",
    re.IGNORECASE,
)


def named_for_evaluation(name: str) -> bool:
    """Whether a function's name says that it evaluates or predicts; not the name of a unit test (test_...)."""
    if name.startswith("test_"):
        return name in ("test_epoch", "test_loop", "test_model")
    return _NAMED.search(name) is not None or _TESTS.search(name) is not None


@dataclass(frozen=True)
class Forward:
    """A call of a model in evaluation. `switch` is the model.eval() that shows it, or None: the function's name does.
    `grad`: a graph is built, as far as the file shows it."""

    call: cst.Call
    model: str
    function: cst.FunctionDef | cst.Module
    switch: cst.Call | None
    grad: bool


def forwards(script: Script) -> list[Forward]:
    """Every forward of evaluation in the file, in its order, one entry for each call."""
    found: dict[int, Forward] = {}
    for one in [*_switched(script), *_by_name(script)]:
        found.setdefault(script.begin(one.call), one)
    return [found[place] for place in sorted(found)]


def evaluates(script: Script, one: Forward) -> bool:
    """Whether a forward in eval() mode is there to evaluate, and not for gradients: of an input (attacks, saliency), or
    through a part of the model that is frozen or only has its norms and dropout switched."""
    function = one.function
    if not isinstance(function, cst.FunctionDef):
        return True
    name = function.name.value
    if name in _TRAINED_THROUGH:
        return False
    words = [one.attr.value for one in script.of(cst.Attribute) if script.inside(one, function)]
    words += [
        one.keyword.value
        for one in script.of(cst.Arg)
        if one.keyword is not None and script.inside(one, function)
    ]
    if not _GRADIENTS.isdisjoint(words):
        return False
    if any([isinstance(block, cst.With) and _turns_on(script, block) for block in script.above(one.call)]):
        return False
    return named_for_evaluation(name) or not escapes(script, one.call, function)


def _turns_on(script: Script, block: cst.With) -> bool:
    """`with torch.enable_grad():`, or set_grad_enabled(True): whoever writes it wants the graph."""
    for item in block.items:
        call = item.item
        if isinstance(call, cst.Call) and script.means(
            call.func, "torch.enable_grad", "torch.autograd.enable_grad"
        ):
            return True
        if isinstance(call, cst.Call) and script.means(call.func, "torch.set_grad_enabled"):
            value = call.args[0].value if call.args else None
            if isinstance(value, cst.Name) and value.value == "True":
                return True
    return False


def _switched(script: Script) -> Iterator[Forward]:
    for switch in script.methods("eval"):
        assert isinstance(switch.func, cst.Attribute)
        parent = script.parent(switch)
        # model.eval(), and model = build().to(device).eval()
        model = dotted(switch.func.value) or (
            dotted(parent.targets[0].target) if isinstance(parent, cst.Assign) else ""
        )
        if not model or switch.args or script.meanings(switch.func) & {"torch.eval", "pandas.eval"}:
            continue
        function = script.function(switch)
        end = _until(script, switch, model, function)
        for call in script.calls:
            begin = script.begin(call)
            if not script.begin(switch) < begin < end or script.function(call) is not function:
                continue
            if dotted(call.func) not in (model, f"{model}.module", f"{model}.forward"):
                continue
            yield _forward(script, call, model, function, switch, end)


def _until(script: Script, switch: cst.Call, model: str, function: cst.CSTNode) -> int:
    """Where evaluation ends: at model.train(), or at the end of the function (of the enclosing loop's pass)."""
    ends = [
        script.begin(call)
        for call in script.methods("train")
        if isinstance(call.func, cst.Attribute)
        and dotted(call.func.value) == model
        and script.begin(call) > script.begin(switch)
        and script.function(call) is function
    ]
    whole = script.span(function)[1] if isinstance(function, cst.FunctionDef) else len(script.text.encode())
    return min([*ends, whole])


def _by_name(script: Script) -> Iterator[Forward]:
    """Functions named for evaluation that go through batches and call what they were given as the model."""
    for function in script.of(cst.FunctionDef):
        name = function.name.value
        if not _NAMED.search(name) or name in _BY_TRAINERS:
            continue
        given = {one.name.value for one in function.params.params}
        for call in script.calls:
            if script.function(call) is not function or not script.loops(call):
                continue
            model = dotted(call.func)
            if model in ("model", "self.model", "net", "network", "module", "encoder", "generator"):
                if model.startswith("self.") or model in given or model in ("model", "net"):
                    yield _forward(script, call, model, function, None, script.span(function)[1])


def _forward(
    script: Script,
    call: cst.Call,
    model: str,
    function: cst.FunctionDef | cst.Module,
    switch: cst.Call | None,
    end: int,
) -> Forward:
    start = script.begin(switch) if switch is not None else script.begin(call)
    trains = any([start < script.begin(one) < end for one in backwards(script, function)])
    by_trainer = isinstance(function, cst.FunctionDef) and function.name.value in _BY_TRAINERS
    grad = not (trains or by_trainer or _frozen(script, model) or covered(script, call))
    return Forward(call, model, function, switch, grad)


def _frozen(script: Script, model: str) -> bool:
    """Whether the model's parameters need no gradients: a teacher, a reference model."""
    for call in script.methods("requires_grad_"):
        assert isinstance(call.func, cst.Attribute)
        off = (
            bool(call.args)
            and isinstance(call.args[0].value, cst.Name)
            and call.args[0].value.value == "False"
        )
        if off and dotted(call.func.value) == model:
            return True
        if off and _walks(script, call, model):
            return True
    for node in script.of(cst.Assign):
        target = node.targets[0].target
        if (
            isinstance(target, cst.Attribute)
            and target.attr.value == "requires_grad"
            and isinstance(node.value, cst.Name)
            and node.value.value == "False"
            and _walks(script, node, model)
        ):
            return True
    return False


def _walks(script: Script, node: cst.CSTNode, model: str) -> bool:
    """Whether a loop around the node goes through model.parameters()."""
    return any(
        [
            isinstance(loop, cst.For)
            and isinstance(loop.iter, cst.Call)
            and dotted(loop.iter.func) in (f"{model}.parameters", f"{model}.named_parameters")
            for loop in script.loops(node)
        ]
    )
