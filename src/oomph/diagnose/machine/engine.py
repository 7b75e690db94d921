"""Environment to Checkup: every check is asked, and what it answers is sorted."""

from __future__ import annotations

from collections.abc import Sequence

from oomph.diagnose.machine.checks import all_checks
from oomph.diagnose.machine.model import (
    Asked,
    CheckFinding,
    Checkup,
    Clear,
    CouldNotTell,
    Severity,
    Told,
)
from oomph.diagnose.model import Certainty

_SEVERITIES = tuple(Severity)
_CERTAINTIES = tuple(Certainty)


def check_up(asked: Asked, *, select: Sequence[str] = (), ignore: Sequence[str] = ()) -> Checkup:
    """Asks all checks; `select` and `ignore` are code prefixes ("ENV4")."""
    findings: list[CheckFinding] = []
    clear: list[Told] = []
    untold: list[Told] = []
    for check in all_checks():
        if (select and not check.code.startswith(tuple(select))) or check.code.startswith(tuple(ignore)):
            continue
        answer = check.check(asked)
        if isinstance(answer, tuple):
            findings += [CheckFinding(check.code, check.cause, check.name, problem) for problem in answer]
        elif isinstance(answer, Clear):
            clear.append(Told(check.code, check.cause, check.name, "clear", answer.why))
        elif isinstance(answer, CouldNotTell):
            untold.append(Told(check.code, check.cause, check.name, "could not tell", answer.why))
    findings.sort(
        key=lambda one: (
            _SEVERITIES.index(one.problem.severity),
            _CERTAINTIES.index(one.problem.certainty),
            one.code,
        )
    )
    return Checkup(
        environment=asked.environment,
        findings=tuple(findings),
        clear=tuple(clear),
        untold=tuple(untold),
        notes=asked.environment.notes,
    )
