"""total += loss; losses.append(loss)."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

from oomph.diagnose.machine.model import Severity
from oomph.diagnose.model import Certainty
from oomph.diagnose.script.base import Found, ScriptCheck
from oomph.diagnose.script.evaluation import forwards
from oomph.diagnose.script.gradient import backwards, covered, names_in
from oomph.diagnose.script.model import Edit, ScriptProblem
from oomph.evidence.script.source import Script, dotted

#: Methods after which nothing of a graph is held.
_CUT = frozenset(("item", "detach", "detach_", "numpy", "tolist", "data", "backward", "size", "dim", "numel"))
_CUT_CALLS = frozenset(("float", "int", "str", "len", "print", "round", "bool", "format", "repr", "range"))
#: With these a backward keeps the graph: somebody goes through it once more.
_AGAIN = frozenset(("retain_graph", "create_graph"))
_COLLECT = frozenset(("append", "add", "appendleft"))


class LossKeepsItsGraph(ScriptCheck):
    """See the class attributes: they are the check's documentation."""

    code = "SCR105"
    cause = "loss_keeps_its_graph"
    name = "loss-keeps-its-graph"
    means = (
        "A loss that is summed or collected over steps is a tensor with the graph of its step. What backward has not "
        "gone through stays whole, activations included; after backward the saved activations are gone, and the nodes, "
        "what custom functions keep on `ctx`, and a chain of additions still grow with each step."
    )
    decisive_evidence = (
        "In the loop whose loss goes backward (or that evaluates with gradients on), the loss itself is added to, or "
        "appended to, something from before the loop."
    )
    first_action = "loss.detach(), or loss.item() where a number is enough (it waits for the GPU)."
    verify = "Allocated memory after each step stays the same: `oomph verify` has a check of growth."
    wrong_advice = "empty_cache() or gc.collect(): the graph is referenced, and stays."

    def check(self, script: Script) -> Found:
        losses = _Losses(script)
        for kept in _kept(script):
            loop = script.loops(kept.node)
            if not loop:
                if _of_a_training_step(script, kept):
                    yield self._problem(script, kept, gone=True)
                continue
            carried, sure = losses.graph_in(kept.value, kept.node)
            if carried is None or _starts_in(script, kept.target, loop[0]):
                continue
            if _goes_backward(script, kept.target, loop[0]):
                continue
            if kept.how == "added" and covered(script, kept.value):
                continue
            yield self._problem(script, kept, gone=carried, sure=sure)

    def _problem(self, script: Script, kept: _Kept, *, gone: bool, sure: bool = False) -> ScriptProblem:
        start, end = script.span(kept.value)
        simple = isinstance(kept.value, (cst.Name, cst.Attribute, cst.Call))
        contained = isinstance(kept.value, (cst.Tuple, cst.List, cst.Dict))
        text = script.code(kept.value)
        return ScriptProblem(
            says=f"{text} is {kept.how} to {kept.target} with its graph, in every step.",
            does=(
                "After backward the activations are freed; the graph's nodes and the chain of what is kept grow with "
                "each step."
                if gone
                else "No backward goes through it: all activations of each pass stay."
            ),
            fix="Keep the number, not the graph.",
            paste="loss.detach()" if contained else f"{text if simple else f'({text})'}.detach()",
            subject=kept.target,
            severity=Severity.WARNING if gone else Severity.ERROR,
            certainty=Certainty.CERTAIN if gone else Certainty.LIKELY,
            evidence=(script.quote(kept.node),),
            edits=()
            if not sure
            else (Edit(end, end, ".detach()"),)
            if simple
            else (Edit(start, start, "("), Edit(end, end, ").detach()")),
        )


@dataclass(frozen=True)
class _Kept:
    """`target` gets `value`: "added" or "appended"."""

    node: cst.CSTNode
    target: str
    value: cst.BaseExpression
    how: str


def _kept(script: Script) -> list[_Kept]:
    found = [
        _Kept(node, script.code(node.target), node.value, "added")
        for node in script.of(cst.AugAssign)
        if isinstance(node.operator, cst.AddAssign)
    ]
    for assign in script.of(cst.Assign):
        value = assign.value
        target = script.code(assign.targets[0].target)
        if isinstance(value, cst.BinaryOperation) and isinstance(value.operator, cst.Add):
            # total = total + loss, and mean = 0.99 * mean + 0.01 * loss
            for before, part in ((value.left, value.right), (value.right, value.left)):
                if (
                    target_in(before, target)
                    and not target_in(part, target)
                    and target in script.code(before)
                ):
                    found.append(_Kept(assign, target, part, "added"))
                    break
    for call in script.methods(*_COLLECT):
        assert isinstance(call.func, cst.Attribute)
        if len(call.args) == 1 and call.args[0].keyword is None:
            found.append(_Kept(call, script.code(call.func.value), call.args[0].value, "appended"))
    return sorted(found, key=lambda one: script.begin(one.node))


def _of_a_training_step(script: Script, kept: _Kept) -> bool:
    """Whether a Lightning module's training_step keeps on itself the loss that it returns."""
    function = script.function(kept.node)
    if not isinstance(function, cst.FunctionDef) or function.name.value != "training_step":
        return False
    if not kept.target.startswith("self."):
        return False
    returned: set[str] = set()
    for node in script.of(cst.Return):
        if script.function(node) is function and node.value is not None:
            if isinstance(node.value, cst.Dict):
                for element in node.value.elements:
                    returned |= set(_carried(element.value))
            else:
                returned |= set(_carried(node.value))
    return bool(returned & set(_carried(kept.value)))


class _Losses:
    """Which names of a loop hold a graph: those that go backward, what they are made of, and losses of an evaluation
    with gradients on."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._by_loop: dict[int, tuple[frozenset[str], frozenset[str], frozenset[str]]] = {}

    def graph_in(self, value: cst.BaseExpression, at: cst.CSTNode) -> tuple[bool | None, bool]:
        """Whether backward goes through what carries a graph out of the expression, None where nothing does; and
        whether it is a tensor for sure, as what backward is called on is.

        What a name holds is asked of the loop in which it got its value last: a loop that trains and one that
        evaluates may use one name.
        """
        script = self._script
        for text in _carried(value):
            loop = self._loop(text.split(".")[0], at)
            gone, others, roots = self._names(loop)
            if text not in gone and text not in others:
                continue
            after = self._bound_after_backward(text, at, loop) if text in gone else None
            if after is not None and not set(_carried(after)) & gone:
                continue  # loss = loss.item(), loss = all_reduce(loss.data): another value by now
            again = any([_keeps_graph(call) for call in backwards(script, loop)])
            sure = text in roots and not again and not isinstance(value, (cst.Tuple, cst.List, cst.Dict))
            return text in gone, sure
        return None, False

    def _bound_after_backward(
        self, text: str, at: cst.CSTNode, loop: cst.CSTNode
    ) -> cst.BaseExpression | None:
        """What the name was bound to between the loop's first backward and this place, the last time."""
        script = self._script
        calls = backwards(script, loop)
        begin = min([script.begin(call) for call in calls], default=None)
        last: cst.BaseExpression | None = None
        if begin is None:
            return None
        for node in script.of(cst.Assign):
            if begin < script.begin(node) < script.begin(at) and script.inside(node, loop):
                for target, value in _pairs(node):
                    if target == text or target == text.split(".")[0]:
                        last = value
        return last

    def _loop(self, name: str, at: cst.CSTNode) -> cst.CSTNode:
        script = self._script
        last: cst.CSTNode | None = None
        for node in script.of(cst.Assign):
            if script.begin(node) < script.begin(at) and script.function(node) is script.function(at):
                if name in [text.split(".")[0] for text in _targets(node)]:
                    last = node
        loops = script.loops(last) if last is not None else []
        return loops[0] if loops else script.loops(at)[-1]

    def _names(self, loop: cst.CSTNode) -> tuple[frozenset[str], frozenset[str], frozenset[str]]:
        known = self._by_loop.get(id(loop))
        if known is None:
            known = self._by_loop[id(loop)] = self._find(loop)
        return known

    def _find(self, loop: cst.CSTNode) -> tuple[frozenset[str], frozenset[str], frozenset[str]]:
        """Names that backward goes through, names of an evaluation's losses, and what backward is called on."""
        script = self._script
        roots: set[str] = set()
        for call in backwards(script, loop):
            parts: list[cst.CSTNode] = [argument.value for argument in call.args if argument.keyword is None]
            if isinstance(call.func, cst.Attribute) and not parts:
                parts.append(call.func.value)
            for part in parts:
                # scaler.scale(loss).backward(), accelerator.backward(loss), (loss / n).backward()
                inner = part.args[0].value if isinstance(part, cst.Call) and part.args else part
                roots |= set(_carried(inner)) if isinstance(inner, cst.BaseExpression) else set()
        assigned = [
            (target, value)
            for node in script.of(cst.Assign)
            if script.inside(node, loop)
            for target, value in _pairs(node)
        ]
        computed = {target for target, value in assigned if _calls_something(value)}
        gone = set(roots)
        for _ in range(3):
            for target, value in assigned:
                if target in gone:
                    gone |= {
                        text for text in _carried(value) if text.split(".")[0] in computed or text in computed
                    }
        others: set[str] = set()
        if not roots:
            models = {
                target
                for one in forwards(script)
                if one.grad and script.inside(one.call, loop)
                for target, value in assigned
                if script.inside(one.call, value) or value is one.call
            }
            for target, value in assigned:
                if names_in(value) & models and "loss" in target.lower() and not _is_cut(value):
                    others.add(target)
            others -= {target for target, value in assigned if _is_cut(value)}
            others |= {f"{model}.loss" for model in models} | {one for one in models if "loss" in one.lower()}
        return frozenset(gone), frozenset(others), frozenset(roots)


def _targets(node: cst.Assign) -> list[str]:
    found: list[str] = []
    for one in node.targets:
        target = one.target
        if isinstance(target, (cst.Tuple, cst.List)):
            found += [dotted(element.value) for element in target.elements]
        else:
            found.append(dotted(target))
    return [text for text in found if text]


def _pairs(node: cst.Assign) -> list[tuple[str, cst.BaseExpression]]:
    """Names with what each is bound to: "a, b = x, y" one by one."""
    target, value = node.targets[0].target, node.value
    if (
        len(node.targets) == 1
        and isinstance(target, (cst.Tuple, cst.List))
        and isinstance(value, (cst.Tuple, cst.List))
        and len(target.elements) == len(value.elements)
    ):
        both = zip(target.elements, value.elements, strict=True)
        return [(dotted(one.value), other.value) for one, other in both if dotted(one.value)]
    return [(name, value) for name in _targets(node)]


def _keeps_graph(call: cst.Call) -> bool:
    """Whether a backward leaves the graph in place, for another one."""
    return any([one.keyword is not None and one.keyword.value in _AGAIN for one in call.args])


def _is_cut(node: cst.BaseExpression) -> bool:
    """Whether the value is a number, or a tensor without a graph, whatever it was made of."""
    if isinstance(node, cst.Call):
        func = node.func
        if isinstance(func, cst.Name):
            return func.value in _CUT_CALLS
        if isinstance(func, cst.Attribute):
            return func.attr.value in _CUT or _is_cut(func.value)
        return False
    if isinstance(node, cst.Attribute):
        return node.attr.value in _CUT or _is_cut(node.value)
    if isinstance(node, cst.Subscript):
        return _is_cut(node.value)
    if isinstance(node, cst.BinaryOperation):
        return _is_cut(node.left) or _is_cut(node.right)
    return False


def _calls_something(node: cst.CSTNode) -> bool:
    """Whether a value is computed by a call whose result can be a tensor, or taken out of what one returned."""
    if isinstance(node, (cst.Attribute, cst.Subscript)):
        return True
    if isinstance(node, cst.Call):
        return not (isinstance(node.func, cst.Name) and node.func.value in _CUT_CALLS)
    return any([_calls_something(child) for child in node.children])


def _carried(node: cst.BaseExpression) -> list[str]:
    """Names in an expression whose graph gets into its value: nothing behind .item(), .detach(), float()."""
    if isinstance(node, cst.Name):
        return [] if node.value in ("self", "cls") else [node.value]
    if isinstance(node, (cst.Tuple, cst.List)):
        return [text for one in node.elements for text in _carried(one.value)]
    if isinstance(node, cst.Dict):
        return [text for one in node.elements for text in _carried(one.value)]
    if isinstance(node, cst.Attribute):
        if node.attr.value in _CUT:
            return []
        text = dotted(node)
        return [text, *_carried(node.value)] if text else _carried(node.value)
    if isinstance(node, cst.Call):
        if isinstance(node.func, cst.Name):
            return (
                [] if node.func.value in _CUT_CALLS or node.func.value not in ("sum",) else _arguments(node)
            )
        if isinstance(node.func, cst.Attribute):
            if node.func.attr.value in _CUT:
                return []
            if node.func.attr.value in (
                "mean",
                "sum",
                "clone",
                "cpu",
                "to",
                "float",
                "double",
                "half",
                "view",
                "reshape",
            ):
                return _carried(node.func.value) or _arguments(node)
        return []
    if isinstance(node, cst.BinaryOperation):
        return [*_carried(node.left), *_carried(node.right)]
    if isinstance(node, cst.UnaryOperation):
        return _carried(node.expression)
    if isinstance(node, cst.Subscript):
        return _carried(node.value)
    return []


def _arguments(call: cst.Call) -> list[str]:
    return [text for one in call.args for text in _carried(one.value)]


def _starts_in(script: Script, target: str, loop: cst.CSTNode) -> bool:
    """Whether what is kept begins anew in each pass of the loop."""
    return any(
        [
            script.inside(node, loop)
            and any([script.code(one.target) == target for one in node.targets])
            and not target_in(node.value, target)
            for node in script.of(cst.Assign)
        ]
    )


def target_in(value: cst.CSTNode, target: str) -> bool:
    """Whether an expression uses a name."""
    return target.split(".")[0].split("[")[0] in names_in(value)


def _goes_backward(script: Script, target: str, loop: cst.CSTNode) -> bool:
    """Whether what is kept is a loss that is summed up to go backward itself, in the loop or after it."""
    root = target.split("[")[0]
    function = script.function(loop)
    used: set[str] = {root}
    for node in script.of(cst.Assign):
        if (
            script.function(node) is function
            and target_in(node.value, root)
            and not script.inside(node, loop)
        ):
            used |= {text for text in _targets(node) if "." not in text}
    for call in backwards(script, function):
        texts = (
            names_in(call.func)
            if not call.args
            else {name for one in call.args for name in names_in(one.value)}
        )
        if texts & {name.split(".")[0] for name in used} and (root in texts or texts & used):
            return True
    return False
