"""Where a script builds no graph: what torch.no_grad() and its kin cover."""

from __future__ import annotations

import libcst as cst

from oomph.evidence.script.source import Script, argument

_OFF = (
    "torch.no_grad",
    "torch.autograd.no_grad",
    "torch.autograd.grad_mode.no_grad",
    "torch.inference_mode",
    "torch.autograd.grad_mode.inference_mode",
    "torch.autograd.inference_mode",
)
_MOST_CALLERS = 20
_SET = (
    "torch.set_grad_enabled",
    "torch.autograd.set_grad_enabled",
    "torch.autograd.grad_mode.set_grad_enabled",
)


def covered(script: Script, node: cst.CSTNode, depth: int = 0) -> bool:
    """Whether no graph is built at a node as far as the file shows it: a `with`, a decorator, set_grad_enabled before
    it, or every call of the function around it covered so."""
    function: cst.FunctionDef | None = None
    for one in script.above(node):
        if isinstance(one, cst.With) and any([_is_off(script, item.item) for item in one.items]):
            return True
        if isinstance(one, cst.FunctionDef):
            if any([_is_off(script, decorator.decorator) for decorator in one.decorators]):
                return True
            function = function or one
        if isinstance(one, cst.ClassDef) and any(
            [_is_off(script, item.decorator) for item in one.decorators]
        ):
            return True
    if _switched_off(script, node):
        return True
    return function is not None and depth < 4 and _callers_covered(script, function, depth)


def _is_off(script: Script, node: cst.BaseExpression) -> bool:
    """torch.no_grad(), torch.no_grad, torch.inference_mode(), torch.set_grad_enabled(False or what it depends on)."""
    call = node if isinstance(node, cst.Call) else None
    name = call.func if call is not None else node
    if script.means(name, *_OFF):
        mode = argument(call, "mode", 0) if call is not None else None
        return not (isinstance(mode, cst.Name) and mode.value == "False")
    if call is not None and script.means(name, *_SET):
        mode = argument(call, "mode", 0)
        # set_grad_enabled(training) covers evaluation: whoever writes it has thought of it.
        return not (isinstance(mode, cst.Name) and mode.value == "True")
    return False


def _switched_off(script: Script, node: cst.CSTNode) -> bool:
    """Whether the last torch.set_grad_enabled(...) statement before the node, in its function or in the module, is
    off."""
    function = script.function(node)
    last: cst.Call | None = None
    for call in script.called(*_SET):
        if script.begin(call) > script.begin(node):
            break
        if not isinstance(script.parent(call), cst.Expr):
            continue
        if script.function(call) in (function, script.module):
            last = call
    return last is not None and _is_off(script, last)


def _callers_covered(script: Script, function: cst.FunctionDef, depth: int) -> bool:
    calls = script.calls_of(function.name.value)
    # A name that is called all over a file (get, forward) tells nothing of its callers.
    return 0 < len(calls) <= _MOST_CALLERS and all([covered(script, call, depth + 1) for call in calls])


def backwards(script: Script, within: cst.CSTNode) -> list[cst.Call]:
    """Calls that run backward: X.backward(), accelerator.backward(X), torch.autograd.grad(...)."""
    found = [call for call in script.methods("backward", "manual_backward") if script.inside(call, within)]
    return found + [
        call
        for call in script.called("torch.autograd.grad", "torch.autograd.backward")
        if script.inside(call, within)
    ]


def names_in(node: cst.CSTNode) -> set[str]:
    """Every plain name in an expression; not the attributes behind a dot."""
    found: set[str] = set()
    waiting = [node]
    while waiting:
        one = waiting.pop()
        if isinstance(one, cst.Name):
            found.add(one.value)
        elif isinstance(one, (cst.Attribute, cst.Arg)):
            waiting.append(one.value)
        else:
            waiting += one.children
    return found
