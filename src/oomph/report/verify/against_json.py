"""The comparison as a JSON document of a stable, published shape (`schema/plan-against.schema.json`)."""

from __future__ import annotations

import msgspec

from oomph import __version__
from oomph.diagnose.verify.against import model
from oomph.report import schemas
from oomph.report.clean import clean
from oomph.report.plan.json import job_table
from oomph.report.verify import against_wire as wire
from oomph.report.verify.against_words import headline


def render_json(found: model.Against) -> str:
    """The whole answer, indented, ending in a newline."""
    return msgspec.json.format(msgspec.json.encode(report(found)), indent=2).decode() + "\n"


def report(found: model.Against) -> wire.Report:
    """The document."""
    plan = found.plan
    return wire.Report(
        schema_version="1",
        oomph_version=__version__,
        exit_code=_code(found.exit_code),
        summary=clean(headline(found)),
        run=clean(found.data.run.id),
        path=clean(found.data.path),
        outcome=found.data.outcome.value,
        source=clean(found.source),
        job=job_table(plan.job),
        ranks="" if found.rank is None else found.rank.ranks,
        rows=[_row(row) for row in found.rows],
        causes=[_cause(cause) for cause in found.causes],
        beside=None if found.beside is None else _beside(found.beside),
        categories=None if found.categories is None else _categories(found.categories),
        why_no_categories=clean(found.why_no_categories),
        assumptions=list(plan.assumptions),
        unsupported=list(plan.unsupported),
        notes=[clean(note) for note in (*found.notes, *plan.notes)],
    )


def _code(code: int) -> wire.ExitCode:
    return 0 if code == 0 else 1 if code == 1 else 2


def read_schema() -> str:
    """The published JSON Schema of what `render_json` returns."""
    return schemas.published("plan-against")


def schema_text() -> str:
    """The JSON Schema, generated from `against_wire`; the published file must equal it."""
    return schemas.generated("plan-against", wire.SCHEMA_VERSION, wire.Report)


def _row(row: model.Row) -> wire.Row:
    predicted = row.predicted
    return wire.Row(
        phase=row.phase.value,
        rank=row.rank,
        predicted_bytes=None if predicted is None else predicted.allocated_bytes,
        low_bytes=None if predicted is None else predicted.low_bytes,
        high_bytes=None if predicted is None else predicted.high_bytes,
        predicted_reserved_bytes=None if predicted is None else predicted.reserved_bytes,
        recorded_bytes=row.recorded,
        first_step_bytes=row.first,
        later_bytes=row.later,
        needed_bytes=row.needed,
        recorded_reserved_bytes=row.reserved,
        difference_bytes=row.difference,
        within=row.within,
        open=clean(row.open),
        expected_bytes=row.expected,
        expected_low_bytes=row.expected_low,
        expected_high_bytes=row.expected_high,
        unexplained_bytes=row.unexplained,
    )


def _cause(cause: model.Cause) -> wire.Cause:
    return wire.Cause(
        kind=cause.kind,
        text=clean(cause.text),
        bytes={phase.value: size for phase, size in cause.bytes.items()},
        unsupported=clean(cause.unsupported),
    )


def _beside(beside: model.Beside) -> wire.Beside:
    return wire.Beside(
        rank=beside.rank,
        cached_bytes=beside.cached,
        cached_predicted_bytes=beside.cached_predicted,
        outside_bytes=beside.outside,
        outside_low_bytes=beside.outside_low,
        outside_high_bytes=beside.outside_high,
        outside_with_others_bytes=beside.outside_with_others,
        other_processes_bytes=beside.others,
    )


def _categories(table: model.Categories) -> wire.Categories:
    return wire.Categories(
        rank=table.rank,
        phase=table.phase.value,
        text=table.text,
        rows=[
            wire.CategoryRow(
                category=row.category,
                predicted_bytes=row.predicted,
                recorded_bytes=row.recorded,
                difference_bytes=row.recorded - row.predicted,
                certainty=row.certainty,
            )
            for row in table.rows
        ],
    )
