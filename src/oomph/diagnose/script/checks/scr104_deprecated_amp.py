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
                fix=f'Say torch.amp.{what}("cuda", ...), which does the same.',
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
        arguments: tuple[Edit, ...] = (Edit(opened, opened, '"cuda", ' if call.args else '"cuda"'),)
    else:
        arguments = (Edit(name_end, end, text),)
    name = dotted(call.func)
    if name.startswith("torch.cuda.amp."):
        return (Edit(start, name_end, f"torch.amp.{what}"), *arguments)
    imported = _import(script, call)
    return (*imported, *arguments) if imported else ()


def _import(script: Script, call: cst.Call) -> tuple[Edit, ...]:
    """`from torch.cuda.amp import autocast` becomes `from torch.amp import autocast`, where all that it brings has the
    same name there."""
    local = dotted(call.func)
    for node in script.of(cst.ImportFrom):
        if node.module is None or isinstance(node.names, cst.ImportStar):
            continue
        module = dotted(node.module)
        for alias in node.names:
            if (alias.evaluated_alias or alias.evaluated_name) != local.split(".")[0]:
                continue
            names = {one.evaluated_name for one in node.names}
            if module == "torch.cuda.amp" and local.count(".") == 0 and names <= {"autocast", "GradScaler"}:
                return (Edit(*script.span(node.module), "torch.amp"),)
            if module == "torch.cuda" and alias.evaluated_name == "amp" and names == {"amp"}:
                # `amp.autocast(...)`: every use of `amp` is one of the two.
                return (Edit(*script.span(node.module), "torch"),) if _only_two(script, local) else ()
    return ()


def _only_two(script: Script, local: str) -> bool:
    root = local.split(".")[0]
    uses = [node for node in script.of(cst.Attribute) if dotted(node.value) == root]
    return all([node.attr.value in ("autocast", "GradScaler") for node in uses])
