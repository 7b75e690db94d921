"""The answer as SARIF 2.1.0: findings at the lines of the files that were named, scripts above all."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from oomph import __version__
from oomph.diagnose.machine.model import CheckFinding, Checkup, Severity
from oomph.report.doctor.view import prepare
from oomph.report.doctor.words import headline
from oomph.report.options import ReportOptions
from oomph.report.sarif import SCHEMA, RuleInfo, descriptor, places, result_message

_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "note"}


def render_sarif(checkup: Checkup, options: ReportOptions, checks: Iterable[RuleInfo] = ()) -> str:
    """A SARIF log of one run. `checks` describe the codes of the findings. What could not be told is a notification."""
    checkup = prepare(checkup, options).checkup
    by_code = {check.code: check for check in checks}
    codes = list(dict.fromkeys(one.code for one in checkup.findings))
    notes = [{"level": "note", "message": result_message(note)} for note in checkup.notes]
    notes += [
        {"level": "note", "message": result_message(f"{one.code} could not be told: {one.why}")}
        for one in checkup.untold
    ]
    driver = {
        "name": "oomph",
        "version": __version__,
        "semanticVersion": __version__,
        "rules": [descriptor(code, by_code.get(code), checkup.findings) for code in codes],
    }
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "invocations": [
            {
                "executionSuccessful": True,
                "exitCode": checkup.exit_code,
                "toolExecutionNotifications": notes,
            }
        ],
        "results": [_result(one, codes.index(one.code)) for one in checkup.findings],
        "properties": {"summary": headline(checkup)},
    }
    return (
        json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2, ensure_ascii=False)
        + "\n"
    )


def _result(finding: CheckFinding, index: int) -> dict[str, Any]:
    problem = finding.problem
    said = [problem.says, problem.does, f"First: {problem.fix}" if problem.fix else "", problem.paste]
    return {
        "ruleId": finding.code,
        "ruleIndex": index,
        "level": _LEVELS[problem.severity],
        "message": result_message(" ".join(part.strip() for part in said if part)),
        **places(problem.evidence),
        "properties": {
            "certainty": problem.certainty.value,
            "cause": finding.cause,
            "subject": problem.subject,
            "numbers": dict(problem.numbers),
        },
    }
