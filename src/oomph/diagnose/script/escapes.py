"""Whether what a forward gives leaves the function with its graph: returned, yielded, kept on an object."""

from __future__ import annotations

import libcst as cst

from oomph.evidence.script.source import Script, dotted

#: What comes out of these holds no graph: numbers, other types, indices.
_CUT = frozenset(
    (
        "item",
        "detach",
        "numpy",
        "tolist",
        "data",
        "shape",
        "size",
        "argmax",
        "argmin",
        "argsort",
        "eq",
        "ne",
        "gt",
        "lt",
        "ge",
        "le",
        "long",
        "int",
        "bool",
    )
)
_CUT_CALLS = frozenset(("float", "int", "str", "len", "print", "bool", "repr", "round", "format"))
_KEEPS = frozenset(("append", "extend", "add", "appendleft", "update", "insert"))
_ROUNDS = 4


def escapes(script: Script, forward: cst.Call, function: cst.FunctionDef) -> bool:
    """Whether a value made of the forward's, with its graph as far as the file shows, gets out of the function."""
    tainted: set[str] = set()
    own = {one.name.value for one in function.params.params}

    def holds(node: cst.CSTNode) -> bool:
        if node is forward:
            return True
        if isinstance(node, cst.Name):
            return node.value in tainted
        if isinstance(node, cst.Attribute):
            return node.attr.value not in _CUT and (holds(node.value) or dotted(node) in tainted)
        if isinstance(node, cst.Call):
            if isinstance(node.func, cst.Name) and node.func.value in _CUT_CALLS:
                return False
            if isinstance(node.func, cst.Attribute) and node.func.attr.value in _CUT:
                return False
        if isinstance(node, (cst.Comparison, cst.BooleanOperation)):
            return False
        return any([holds(child) for child in node.children])

    assigned = [one for one in script.of(cst.Assign) if script.function(one) is function]
    summed = [one for one in script.of(cst.AugAssign) if script.function(one) is function]
    kept = [call for call in script.methods(*_KEEPS) if script.function(call) is function]
    targets: list[tuple[cst.BaseExpression, cst.BaseExpression]] = []
    for one in assigned:
        for each in one.targets:
            target = each.target
            if isinstance(target, (cst.Tuple, cst.List)):
                targets += [(element.value, one.value) for element in target.elements]
            else:
                targets.append((target, one.value))
    targets += [(one.target, one.value) for one in summed]
    for call in kept:
        assert isinstance(call.func, cst.Attribute)
        targets += [(call.func.value, argument.value) for argument in call.args]
    for _ in range(_ROUNDS):
        before = len(tainted)
        for goal, value in targets:
            root = _root(goal)
            if root and holds(value):
                tainted.add(root)
        if len(tainted) == before:
            break
    if any([_root(goal) in own | {"self"} and not _plain(goal) and holds(value) for goal, value in targets]):
        return True
    leaving: list[cst.CSTNode | None] = []
    leaving += [one.value for one in script.of(cst.Return) if script.function(one) is function]
    leaving += [one.value for one in script.of(cst.Yield) if script.function(one) is function]
    return any([value is not None and holds(value) for value in leaving])


def _plain(goal: cst.CSTNode) -> bool:
    return isinstance(goal, cst.Name)


def _root(goal: cst.CSTNode) -> str:
    """The name that an assignment's target begins with."""
    while isinstance(goal, (cst.Attribute, cst.Subscript)):
        goal = goal.value
    return goal.value if isinstance(goal, cst.Name) else ""
