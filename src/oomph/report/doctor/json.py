"""The answer as a JSON document of a stable, published shape (`schema/doctor.schema.json`)."""

from __future__ import annotations

import msgspec

from oomph import __version__
from oomph.diagnose.machine import model
from oomph.report import schemas
from oomph.report.doctor import wire
from oomph.report.doctor.view import View, prepare
from oomph.report.doctor.words import headline
from oomph.report.options import ReportOptions


def render_json(checkup: model.Checkup, options: ReportOptions) -> str:
    """The whole answer, indented, ending in a newline."""
    document = report(prepare(checkup, options))
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n"


def report(view: View) -> wire.Report:
    """The document."""
    checkup = view.checkup
    counts = {severity: len(view.of(severity)) for severity in model.Severity}
    return wire.Report(
        schema_version="1",
        oomph_version=__version__,
        exit_code=1 if checkup.exit_code else 0,
        summary=headline(checkup),
        live=checkup.environment.live,
        machine=view.about,
        errors=counts[model.Severity.ERROR],
        warnings=counts[model.Severity.WARNING],
        notices=counts[model.Severity.NOTE],
        findings=[_finding(one) for one in checkup.findings],
        clear=[_told(one) for one in checkup.clear],
        could_not_tell=[_told(one) for one in checkup.untold],
        notes=list(checkup.notes),
        sources=[wire.Source(source=name, what=kind) for name, kind in checkup.environment.sources],
        passed_over=[wire.Source(source=name, what=why) for name, why in checkup.environment.passed_over],
        missing=dict(checkup.environment.missing),
    )


def read_schema() -> str:
    """The published JSON Schema of what `render_json` returns."""
    return schemas.published("doctor")


def schema_text() -> str:
    """The JSON Schema, generated from `wire`; the published file must equal it."""
    return schemas.generated("doctor", wire.SCHEMA_VERSION, wire.Report)


def _finding(one: model.CheckFinding) -> wire.Finding:
    problem = one.problem
    return wire.Finding(
        code=one.code,
        cause=one.cause,
        name=one.name,
        severity=problem.severity.value,
        certainty=problem.certainty.value,
        subject=problem.subject,
        says=problem.says,
        does=problem.does,
        fix=problem.fix,
        paste=problem.paste,
        wrong=problem.wrong,
        safe_fix=bool(getattr(problem, "edits", ())),
        numbers=dict(problem.numbers),
        evidence=[
            wire.Quote(source=quote.source, line=quote.line, text=quote.text) for quote in problem.evidence
        ],
    )


def _told(one: model.Told) -> wire.Told:
    return wire.Told(code=one.code, cause=one.cause, name=one.name, why=one.why)
