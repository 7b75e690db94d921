"""Variables of PyTorch's NCCL backend: old names, unknown names, values that raise."""

from __future__ import annotations

import re

from oomph.diagnose.machine.base import Check
from oomph.diagnose.machine.model import Answer, Asked, Clear, CouldNotTell, NotHere, Problem, Severity
from oomph.diagnose.machine.settings import counted, export, in_effect, torch_version
from oomph.diagnose.model import Certainty
from oomph.evidence.environment.model import Environment, Variable
from oomph.hardware.nccl import TorchVariable, nearest, torch_variables

#: The release that put TORCH_ before the names (and still reads the old ones, with a warning).
_RENAMED_IN = (2, 2)
#: The PyTorch whose names the table has.
_TABLE = (2, 13)
#: getCvarBool in torch/csrc/distributed/c10d/Utils.hpp.
_TRUE = frozenset(("y", "yes", "1", "t", "true"))
_FALSE = frozenset(("n", "no", "0", "f", "false"))
_INT = re.compile(r"\s*[+-]?[0-9]+")  # std::stoi: what follows the digits is dropped


class TorchNcclVariable(Check):
    """See the class attributes: they are the check's documentation."""

    code = "ENV422"
    cause = "torch_nccl_variable"
    name = "torch-nccl-variable"
    means = (
        "PyTorch's NCCL backend has variables of its own. Since 2.2 their names begin with TORCH_NCCL_; five older "
        "names without TORCH_ are still read, with a warning, and lose against the new ones. A name that is mistyped "
        "is passed over; a value that is no number or truth raises when the process group is made."
    )
    decisive_evidence = "The name or value against the list in PyTorch's headers."
    first_action = "Correct the name or the value."
    verify = "The job starts without `Environment variable NCCL_... is deprecated` in its log."
    wrong_advice = "NCCL_ASYNC_ERROR_HANDLING=1 against out-of-memory: it is on by default and frees nothing."

    def check(self, asked: Asked) -> Answer:
        environment = asked.environment
        problems: list[Problem] = []
        known = 0
        untold = ""
        for one in in_effect(environment):
            table = torch_variables()
            variable = table.get(one.name)
            if variable is None and not one.name.startswith("TORCH_NCCL_"):
                continue
            if variable is None:
                problem = _unknown(one)
                if problem.paste.startswith("unset") and (torch_version(environment) or _TABLE) > _TABLE:
                    untold = f"{one.name} may be a name of this PyTorch, which is newer than the table"
                else:
                    problems.append(problem)
                continue
            known += 1
            found = [_named(environment, one, variable)]
            if one.value is None:
                untold = f"the text does not say what {one.name} becomes"
            else:
                found.append(_valued(one, one.value, variable))
            problems += [each for each in found if each is not None]
        if problems:
            return tuple(problems)
        if untold:
            return CouldNotTell(untold)
        return (
            Clear(f"{counted(known, 'name')} of PyTorch's NCCL backend: all are known, and their values")
            if known
            else NotHere()
        )


def _unknown(one: Variable) -> Problem:
    meant = nearest(one.name, [name for name in torch_variables() if name.startswith("TORCH_")])
    return Problem(
        says=f"PyTorch has no variable {one.name}" + (f"; the nearest is {meant}." if meant else "."),
        does="Nothing: it is never asked for.",
        fix=f"If {meant} is meant, write that." if meant else "Remove it.",
        paste=export(meant, one.value or "") if meant else f"unset {one.name}",
        subject=one.name,
        severity=Severity.WARNING,
        certainty=Certainty.LIKELY,
        evidence=(one.quote,),
    )


def _named(environment: Environment, one: Variable, variable: TorchVariable) -> Problem | None:
    torch = torch_version(environment)
    if one.name == variable.older:
        newer = environment.variable(variable.name)
        if torch is not None and torch < _RENAMED_IN:
            return None
        does = "PyTorch still reads it and warns."
        if newer is not None:
            does = f"{variable.name} is set too, and it is the one that counts."
        return Problem(
            says=f"{one.name} is the old name of {variable.name} (since PyTorch 2.2).",
            does=does,
            fix=f"Use {variable.name}.",
            paste=f"unset {one.name}; " + export(variable.name, one.value or ""),
            subject=one.name,
            severity=Severity.WARNING if torch is not None else Severity.NOTE,
            evidence=(one.quote,),
        )
    if torch is not None and torch < _RENAMED_IN and variable.older:
        return Problem(
            says=f"PyTorch {torch[0]}.{torch[1]} does not know {one.name}: before 2.2 it is {variable.older}.",
            does="Nothing: it is never asked for.",
            fix=f"Use {variable.older}.",
            paste=export(variable.older, one.value or ""),
            subject=one.name,
            severity=Severity.WARNING,
            evidence=(one.quote,),
        )
    return None


def _valued(one: Variable, value: str, variable: TorchVariable) -> Problem | None:
    word = value.lower()
    bad = (variable.type == "bool" and word not in _TRUE | _FALSE) or (
        variable.type == "int" and _INT.match(value) is None
    )
    if bad:
        wanted = "0 or 1" if variable.type == "bool" else "a whole number"
        return Problem(
            says=f"{one.name}={value} is not {wanted}.",
            does=f"PyTorch raises `Invalid value for environment variable: {one.name}` when the process group is made.",
            fix=f"Give {wanted}, or remove it.",
            paste=f"unset {one.name}",
            subject=one.name,
            evidence=(one.quote,),
        )
    if variable.name == "TORCH_NCCL_BLOCKING_WAIT" and word in _TRUE:
        does = "wait() holds the CPU until each collective is done, so that nothing overlaps with it."
        return _costly(one, value, does, "Remove it; the watchdog reports errors and timeouts without it.")
    if variable.name == "TORCH_NCCL_ASYNC_ERROR_HANDLING" and value.strip() == "0":
        does = (
            "When one rank dies, of out-of-memory for example, the others wait for ever and hold their GPUs."
        )
        return _costly(
            one, value, does, "Remove it: the default tears the job down after an error or a timeout."
        )
    return None


def _costly(one: Variable, value: str, does: str, fix: str) -> Problem:
    return Problem(
        says=f"{one.name}={value}: {does[0].lower()}{does[1:]}",
        does=does,
        fix=fix,
        paste=f"unset {one.name}",
        subject=one.name,
        severity=Severity.WARNING,
        evidence=(one.quote,),
    )
