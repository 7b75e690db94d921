"""The answer as a JSON document of a stable, published shape (`schema/verify.schema.json`)."""

from __future__ import annotations

import msgspec

from oomph import __version__
from oomph.diagnose.verify.model import Answer, Status, Verification
from oomph.report import schemas
from oomph.report.clean import clean
from oomph.report.verify import wire
from oomph.report.verify.words import headline


def render_json(found: Verification) -> str:
    """The whole answer, indented, ending in a newline."""
    return msgspec.json.format(msgspec.json.encode(report(found)), indent=2).decode() + "\n"


def report(found: Verification) -> wire.Report:
    """The document."""
    return wire.Report(
        schema_version="1",
        oomph_version=__version__,
        exit_code=1 if found.exit_code else 0,
        verdict=_verdict(found.verdict),
        summary=clean(headline(found)),
        strict=found.strict,
        run=clean(found.run),
        path=clean(found.path),
        outcome=clean(found.outcome),
        passed=len(found.of(Status.PASSED)),
        failed=len(found.of(Status.FAILED)),
        could_not_tell=len(found.of(Status.UNKNOWN)),
        skipped=len(found.of(Status.SKIPPED)),
        answers=[_answer(answer) for answer in found.answers],
        notes=[clean(note) for note in found.notes],
    )


def _verdict(status: Status) -> wire.Verdict:
    if status is Status.PASSED:
        return "passed"
    return "failed" if status is Status.FAILED else "could not tell"


def read_schema() -> str:
    """The published JSON Schema of what `render_json` returns."""
    return schemas.published("verify")


def schema_text() -> str:
    """The JSON Schema, generated from `wire`; the published file must equal it."""
    return schemas.generated("verify", wire.SCHEMA_VERSION, wire.Report)


def _answer(answer: Answer) -> wire.Answer:
    return wire.Answer(
        check=answer.check,
        subject=answer.subject,
        status=answer.status.value,
        text=clean(answer.text),
        rank=answer.rank,
        phase=None if answer.phase is None else answer.phase.value,
        numbers=dict(answer.numbers),
    )
