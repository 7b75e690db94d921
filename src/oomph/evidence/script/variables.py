"""Environment variables that a script sets for itself."""

from __future__ import annotations

import libcst as cst

from oomph.evidence.environment.model import Variable
from oomph.evidence.script.source import Script, text_of

_ENVIRON = ("os.environ",)


def variables_of(script: Script) -> list[Variable]:
    """os.environ["X"] = ..., os.environ.setdefault, .update, os.putenv, os.environ |= {...}, in the order of the file.
    A value that is no literal is None."""
    found: list[tuple[int, Variable]] = []

    def add(name: cst.CSTNode | None, value: cst.CSTNode | None, at: cst.CSTNode) -> None:
        key = text_of(name)
        if key:
            found.append((script.begin(at), Variable(key, _value(script, value), "script", script.quote(at))))

    for node in script.of(cst.Assign):
        for target in node.targets:
            add(environment_key(script, target.target), node.value, node)
    for augmented in script.of(cst.AugAssign):
        if script.means(augmented.target, *_ENVIRON) and isinstance(augmented.value, cst.Dict):
            for element in augmented.value.elements:
                if isinstance(element, cst.DictElement):
                    add(element.key, element.value, augmented)
    for call in script.called("os.environ.setdefault", "os.putenv"):
        if len(call.args) >= 2:
            add(call.args[0].value, call.args[1].value, call)
    for call in script.called("os.environ.update"):
        for argument in call.args:
            if argument.keyword is not None:
                found.append(
                    (
                        script.begin(call),
                        Variable(
                            argument.keyword.value,
                            _value(script, argument.value),
                            "script",
                            script.quote(call),
                        ),
                    )
                )
            elif isinstance(argument.value, cst.Dict):
                for element in argument.value.elements:
                    if isinstance(element, cst.DictElement):
                        add(element.key, element.value, call)
    return [variable for _, variable in sorted(found, key=lambda one: one[0])]


def environment_key(script: Script, node: cst.CSTNode) -> cst.BaseExpression | None:
    """The key of os.environ[KEY]; None of anything else."""
    if not isinstance(node, cst.Subscript) or not script.means(node.value, *_ENVIRON) or len(node.slice) != 1:
        return None
    index = node.slice[0].slice
    return index.value if isinstance(index, cst.Index) else None


def _value(script: Script, node: cst.CSTNode | None) -> str | None:
    """The text that the variable gets, where it is a literal (or str() of one)."""
    if isinstance(node, cst.Call) and script.means(node.func, "builtins.str", "str") and len(node.args) == 1:
        node = node.args[0].value
        if isinstance(node, (cst.Integer, cst.Float)):
            return node.value
    return text_of(node)
