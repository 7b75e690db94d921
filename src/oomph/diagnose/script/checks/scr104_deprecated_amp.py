"""torch.cuda.amp."""

from __future__ import annotations

import libcst as cst

from oomph.diagnose.machine.model import Severity
from oomph.diagnose.script.base import Found, ScriptCheck
from oomph.diagnose.script.model import Edit, ScriptProblem
from oomph.evidence.script.source import Script, dotted, spread

_AUTOCAST = ("torch.cuda.amp.autocast", "torch.cuda.amp.autocast_mode.autocast")
_SCALER = ("torch.cuda.amp.GradScaler", "torch.cuda.amp.grad_scaler.GradScaler")
#: torch.cuda.amp.autocast(enabled, dtype, cache_enabled); torch.amp.autocast has them in another order.
_POSITIONS = ("enabled", "dtype", "cache_enabled")


class DeprecatedAmp(ScriptCheck):
    """See the class attributes: they are the check's documentation."""

    code = "SCR104"
    cause = "deprecated_amp"
    name = "deprecated-amp"
    means = "torch.cuda.amp.autocast and GradScaler are deprecated since PyTorch 2.4: each use is a FutureWarning."
    decisive_evidence = "The names that the script imports and calls."
    first_action = (
        'torch.amp.autocast("cuda", ...) and torch.amp.GradScaler("cuda", ...): the same, under new names.'
    )
    verify = "The FutureWarning is gone; losses are the same."
    wrong_advice = (
        "That autocast cuts memory by a third: parameters stay fp32, it halves activations of some operators at most, "
        "and keeps a low-precision copy of the weights while its cache lives."
    )

    def check(self, script: Script) -> Found:
        for call in script.calls:
            scaler = script.means(call.func, *_SCALER)
            if not scaler and not script.means(call.func, *_AUTOCAST):
                continue
            if not script.meanings(call.func) <= {*_SCALER, *_AUTOCAST}:
                continue  # from torch.amp where that has it, else from here
            what = "GradScaler" if scaler else "autocast"
            yield ScriptProblem(
                says=f"torch.cuda.amp.{what} is deprecated since PyTorch 2.4.",
                does="It works, with a FutureWarning, until it is taken out.",
                fix=f'Say torch.amp.{what}("cuda", ...), which does the same'
                + (" (PyTorch 2.3 and later)." if scaler else "."),
                paste=f'torch.amp.{what}("cuda")',
                subject=what,
                severity=Severity.WARNING,
                evidence=(script.quote(call),),
                edits=_edits(script, call, what),
            )


def _edits(script: Script, call: cst.Call, what: str) -> tuple[Edit, ...]:
    """The call under its new name, with "cuda" before what it has; and where the name comes from a `from` import, that
    import."""
    if spread(call):
        return ()
    parts: list[str] = ['"cuda"']
    place = 0
    for one in call.args:
        value = script.code(one.value)
        if one.keyword is not None:
            parts.append(f"{one.keyword.value}={value}")
        elif what == "GradScaler":
            parts.append(value)
        elif place < len(_POSITIONS):
            parts.append(f"{_POSITIONS[place]}={value}")
            place += 1
        else:
            return ()
    text = f"({', '.join(parts)})"
    name_end = script.span(call.func)[1]
    start, end = script.span(call)
    inside = script.text.encode()[name_end:end].decode()
    if "#" in inside or "\n" in inside:
        # Comments and a layout over several lines stay: only "cuda" is put in, where that is all that changes.
        if place:
            return ()
        opened = name_end + inside.index("(") + 1
        follows = script.text.encode()[opened : opened + 1].decode(errors="replace")
        word = '"cuda"' if not call.args else '"cuda",' if follows.isspace() else '"cuda", '
        arguments: tuple[Edit, ...] = (Edit(opened, opened, word),)
    else:
        arguments = (Edit(name_end, end, text),)
    name = dotted(call.func)
    if what == "GradScaler" and _told_apart(script):
        return ()
    if name.startswith("torch.cuda.amp."):
        return (Edit(start, name_end, f"torch.amp.{what}"), *arguments)
    imported = _import(script, call)
    return (*imported, *arguments) if imported else ()


def _told_apart(script: Script) -> bool:
    """Whether the scaler's class is used without a call, as isinstance(scaler, GradScaler) does: the old class is the
    new one's child, so such a test would no longer hold."""
    names = [*script.of(cst.Name), *script.of(cst.Attribute)]
    called = {id(call.func) for call in script.calls}
    return any(
        [
            id(node) not in called and script.means(node, *_SCALER) and not _imported(script, node)
            for node in names
        ]
    )


def _imported(script: Script, node: cst.CSTNode) -> bool:
    return any([isinstance(one, (cst.ImportFrom, cst.Import)) for one in script.above(node)])


def _import(script: Script, call: cst.Call) -> tuple[Edit, ...]:
    """`from torch.cuda.amp import autocast` becomes `from torch.amp import autocast`, where all that it brings has the
    same name there and every use is a call that gets its "cuda": `autocast` handed on uncalled would be called
    without."""
    local = dotted(call.func)
    root = local.split(".")[0]
    binding = [
        (node, alias)
        for node in script.of(cst.ImportFrom)
        if node.module is not None and not isinstance(node.names, cst.ImportStar)
        for alias in node.names
        if (alias.evaluated_alias or alias.evaluated_name) == root
    ]
    if len(binding) != 1:
        return ()
    node, alias = binding[0]
    assert node.module is not None
    assert not isinstance(node.names, cst.ImportStar)
    module = dotted(node.module)
    names = {one.evaluated_name for one in node.names}
    brought = {one.evaluated_alias or one.evaluated_name for one in node.names}
    if module == "torch.cuda.amp" and local.count(".") == 0 and names <= {"autocast", "GradScaler"}:
        return (Edit(*script.span(node.module), "torch.amp"),) if _all_called(script, brought) else ()
    if module == "torch.cuda" and alias.evaluated_name == "amp" and names == {"amp"}:
        return (Edit(*script.span(node.module), "torch"),) if _all_called(script, brought) else ()
    return ()


def _all_called(script: Script, roots: set[str]) -> bool:
    """Whether every use of these names is a call of one of the two with arguments that can be told."""
    fine = {
        id(_first(call.func))
        for call in script.calls
        if not spread(call)
        and script.means(call.func, *_AUTOCAST, *_SCALER)
        and script.meanings(call.func) <= {*_SCALER, *_AUTOCAST}
        and _plain(script, call)
    }
    for node in script.of(cst.Name):
        parent = script.parent(node)
        if node.value not in roots or id(node) in fine or _imported(script, node):
            continue
        if isinstance(parent, cst.Attribute) and parent.attr is node:
            continue
        if isinstance(parent, cst.Arg) and parent.keyword is node:
            continue
        return False
    return not any(
        [f'"{root}"' in script.text or f"'{root}'" in script.text for root in roots]
    )  # __all__, getattr


def _plain(script: Script, call: cst.Call) -> bool:
    """Whether `_edits` can change the call's arguments."""
    inside = script.code(call)[len(script.code(call.func)) :]
    positional = [one for one in call.args if one.keyword is None]
    if script.means(call.func, *_SCALER):
        return True
    return len(positional) <= len(_POSITIONS) and not (positional and ("#" in inside or "\n" in inside))


def _first(node: cst.BaseExpression) -> cst.BaseExpression:
    while isinstance(node, cst.Attribute):
        node = node.value
    return node
