"""Every recorded machine is read and checked as `oomph doctor --from` does it, and held against what is true of it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.diagnose.machine.fixtures import Fixture, fixtures

if TYPE_CHECKING:
    from oomph.diagnose.machine.model import CheckFinding, Checkup


def checked(fixture: Fixture) -> Checkup:
    from oomph.diagnose.machine.engine import check_up
    from oomph.diagnose.machine.model import Asked
    from oomph.evidence.environment.read import read_environment
    from oomph.job.toml import from_toml

    text = fixture.expected.get("job")
    job = from_toml(text) if text else None
    return check_up(Asked(read_environment(fixture.pasted), job))


def texts(finding: CheckFinding) -> str:
    problem = finding.problem
    parts = [problem.says, problem.does, problem.fix, problem.paste, problem.subject, problem.wrong]
    return re.sub(r"\.00\b", "", "\n".join(parts))  # "64.00 MiB" is 64 MiB


def told(checkup: Checkup) -> str:
    lines = [
        f"  {one.code} {one.problem.severity}: {one.problem.subject}: {one.problem.says}"
        for one in checkup.findings
    ]
    lines += [f"  {one.code} could not tell: {one.why}" for one in checkup.untold]
    return "\n".join(lines) or "  nothing"


@pytest.mark.parametrize("fixture", fixtures(), ids=lambda fixture: fixture.name)
def test_a_recorded_machine(fixture: Fixture) -> None:
    from oomph.diagnose.machine.model import Severity

    checkup = checked(fixture)
    found = {one.code for one in checkup.findings if one.problem.severity is not Severity.NOTE}
    noted = {one.code for one in checkup.findings if one.problem.severity is Severity.NOTE}
    untold = {one.code for one in checkup.untold}
    refused = fixture.expected.get("not", {})
    may_note = fixture.codes("notes") | fixture.codes("may") | fixture.codes("findings")
    wrong = [f"{code} is missing" for code in sorted(fixture.codes("findings") - found)]
    wrong += [
        f"{code} is found, and must not be: {refused.get(code, 'nothing is wrong there')}"
        for code in sorted(found - fixture.codes("findings"))
    ]
    wrong += [f"{code} is missing among the notes" for code in sorted(fixture.codes("notes") - noted)]
    wrong += [f"{code} is a note, and must not be" for code in sorted(noted - may_note)]
    wrong += [f"{code} must say that it could not tell" for code in sorted(fixture.codes("untold") - untold)]
    for code, wanted in fixture.expected.get("says", {}).items():
        said = "\n".join(texts(one) for one in checkup.findings if one.code == code)
        wrong += [f"{code} does not say {text!r}" for text in wanted if said and text not in said]
    for code, refused_texts in fixture.expected.get("never", {}).items():
        said = "\n".join(texts(one) for one in checkup.findings if one.code == code)
        wrong += [f"{code} says {text!r}, which is wrong" for text in refused_texts if text in said]
    for code, subject in fixture.expected.get("subjects", {}).items():
        subjects = [one.problem.subject for one in checkup.findings if one.code == code]
        if subjects and not any(subject in each for each in subjects):
            wrong.append(f"{code} is about {subjects}, not about {subject!r}")
    assert not wrong, (
        f"{fixture.name}: {'; '.join(wrong)}.\n"
        f"The truth: {fixture.expected['about']}\nWhat was answered:\n{told(checkup)}"
    )
    assert checkup.exit_code == int(bool(fixture.codes("findings")))
