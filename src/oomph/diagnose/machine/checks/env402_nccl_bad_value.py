"""A value that NCCL does not understand, or takes for another."""

from __future__ import annotations

from oomph.diagnose.machine.base import Check
from oomph.diagnose.machine.model import (
    Answer,
    Asked,
    Clear,
    CouldNotTell,
    NotHere,
    Problem,
    Severity,
)
from oomph.diagnose.machine.nccl_values import LEVELS, is_level, number, refused_choice
from oomph.diagnose.machine.settings import counted, export, in_effect, nccl_version
from oomph.evidence.environment.model import Environment, Variable
from oomph.hardware.nccl import NcclVariable, nccl_variables

#: Judged by checks of their own.
_ELSEWHERE = frozenset(("NCCL_BUFFSIZE", "NCCL_LL_BUFFSIZE", "NCCL_LL128_BUFFSIZE"))
_NOT_JUDGED = frozenset(("text", "interfaces", "devices"))
#: parseList got prefixes in this release.
_BY_COLLECTIVE = (2, 24)
_YES = frozenset(("true", "yes", "on", "enable", "enabled", "t", "y"))


class NcclBadValue(Check):
    """See the class attributes: they are the check's documentation."""

    code = "ENV402"
    cause = "nccl_bad_value"
    name = "nccl-bad-value"
    means = (
        "NCCL reads numbers up to the first character that is no digit and never complains: `true` is 0, `4MB` is 4, "
        "`010` is 8. A switch set to `true` is therefore off. An unknown algorithm or protocol ends the job; an "
        "unknown level or word is passed over."
    )
    decisive_evidence = "The value, read by the rules of NCCL's own source."
    first_action = "Write the value in the form that NCCL reads: plain digits, 0 or 1, names from the list."
    verify = "NCCL_DEBUG=INFO prints `NCCL_... set by environment to ...` with the value that NCCL took."
    wrong_advice = "Believing the shell: `echo $NCCL_...` proves what was set, not what NCCL made of it."

    def check(self, asked: Asked) -> Answer:
        problems: list[Problem] = []
        untold: list[str] = []
        judged = 0
        for one in in_effect(asked.environment, "NCCL_"):
            variable = nccl_variables().get(one.name)
            if variable is None or variable.type in _NOT_JUDGED or one.name in _ELSEWHERE:
                continue
            if one.value is None:
                untold.append(one.name)
                continue
            judged += 1
            problem = _judged(one, one.value, variable) or _newer_form(asked.environment, one, variable)
            if problem is not None:
                problems.append(problem)
        if problems:
            return tuple(problems)
        if untold:
            return CouldNotTell(
                f"the text does not say what {', '.join(untold)} becomes: `env | grep NCCL_` does"
            )
        return Clear(f"NCCL reads {counted(judged, 'value')} as written") if judged else NotHere()


def _judged(one: Variable, value: str, variable: NcclVariable) -> Problem | None:
    if not value:
        return None
    if variable.type in ("algorithms", "protocols"):
        return _choice(one, value, variable)
    if variable.type == "level":
        return None if is_level(value) else _level(one, value)
    if variable.type in ("word", "words"):
        return _words(one, value, variable)
    return _number(one, value, variable)


def _number(one: Variable, value: str, variable: NcclVariable) -> Problem | None:
    read = number(value)
    if read.value is None:
        default = variable.default or "its own choice"
        return _problem(one, f"{one.name}={value} is too large a number: NCCL takes {default}.", "")
    if not read.whole:
        meant = 1 if value.strip().strip("\"'").lower() in _YES and variable.type == "switch" else None
        quoted = value.strip().strip("\"'")
        meant = (
            int(quoted)
            if meant is None and quoted.isascii() and quoted.isdigit() and len(quoted) < 20
            else meant
        )
        does = ""
        if variable.type == "switch":
            does = f"The switch is {'on' if read.value else 'off'}, whatever the word says."
        return _problem(
            one,
            f"{one.name}={value} is no number: NCCL reads {read.value}.",
            does,
            None if meant is None else str(meant),
        )
    if read.octal:
        return _problem(
            one,
            f"{one.name}={value} begins with 0, so NCCL reads it as octal: {read.value}.",
            "",
            value.strip().lstrip("0"),
        )
    if variable.type == "switch" and read.value not in (0, 1) and str(read.value) != variable.default:
        if read.value < 0:  # -1 and -2 are how NCCL itself writes "not set"
            return None
        return _problem(
            one,
            f"{one.name}={value} is neither 0 nor 1.",
            "NCCL compares some switches with 1 and others with 0: whether this is on depends on which.",
        )
    low, high = variable.low, variable.high
    beyond = (low is not None and read.value < low) or (high is not None and read.value > high)
    uneven = variable.multiple is not None and read.value > 0 and read.value % variable.multiple != 0
    power = variable.power_of_two and read.value & (read.value - 1) != 0
    if (beyond and read.value >= 0) or uneven or power:
        wanted = f"{low} to {high}" if low is not None and high is not None else "a power of two"
        if variable.multiple is not None:
            wanted += f" in steps of {variable.multiple}"
        outside = variable.outside
        return _problem(
            one,
            f"{one.name}={value} is outside what NCCL takes ({wanted}).",
            f"{outside[0].upper()}{outside[1:]}." if outside else "",
        )
    return None


def _choice(one: Variable, value: str, variable: NcclVariable) -> Problem | None:
    refused = refused_choice(value, variable)
    if not refused:
        return None
    spaced = "".join(value.split())
    right = spaced if spaced != value and not refused_choice(spaced, variable) else None
    return _problem(
        one,
        f"{one.name}={value}: {refused}.",
        "NCCL 2.24 and later end with ncclInvalidUsage (`Unrecognized element token`); earlier ones pass over the "
        "word, and fail when no choice is left.",
        right,
        Severity.ERROR,
    )


def _newer_form(environment: Environment, one: Variable, variable: NcclVariable) -> Problem | None:
    """A choice by collective for an NCCL that does not read it."""
    installed = nccl_version(environment)
    if (
        variable.type not in ("algorithms", "protocols")
        or installed is None
        or installed[0] >= _BY_COLLECTIVE
    ):
        return None
    if not set(one.value or "") & set(":;"):
        return None
    shown = ".".join(str(part) for part in installed[0])
    return _problem(
        one,
        f"{one.name}={one.value} chooses by collective, which NCCL reads since 2.24, and {shown} is installed.",
        "It passes over the words that it does not know; what is left holds for all collectives.",
    )


def _level(one: Variable, value: str) -> Problem:
    upper = value.strip().upper()
    return _problem(
        one,
        f"{one.name}={value} is no level (they are {', '.join(LEVELS)}, in capital letters).",
        "NCCL passes over it and chooses by itself.",
        upper if upper in LEVELS else None,
    )


def _words(one: Variable, value: str, variable: NcclVariable) -> Problem | None:
    known = {word if variable.exact else word.lower() for word in variable.values}
    parts = value.removeprefix("^").split(",") if variable.type == "words" else [value]
    bad = [part for part in parts if part and (part if variable.exact else part.lower()) not in known]
    if not bad:
        return None
    outside = variable.outside
    upper = bad[0].strip().upper()
    right = upper if len(parts) == 1 and upper in variable.values else None
    if one.name == "NCCL_DEBUG":
        right = "INFO"
    return _problem(
        one,
        f"{one.name}={value}: NCCL does not know {bad[0]} (it knows {', '.join(variable.values)}).",
        f"{outside[0].upper()}{outside[1:]}." if outside else "",
        right,
    )


def _problem(
    one: Variable, says: str, does: str, right: str | None = None, severity: Severity = Severity.WARNING
) -> Problem:
    return Problem(
        says=says,
        does=does,
        fix=f"Write {one.name}={right}."
        if right is not None
        else "Correct the value, or remove the variable.",
        paste=export(one.name, right) if right is not None else f"unset {one.name}",
        subject=one.name,
        severity=severity,
        evidence=(one.quote,),
    )
