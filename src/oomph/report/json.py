"""The answer as a JSON document of a stable, published shape (`schema/explain.schema.json`)."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from oomph import __version__
from oomph.diagnose import model as diagnose
from oomph.diagnose import planned
from oomph.evidence import model as evidence
from oomph.memory import ledger as memory
from oomph.report import schemas, wire
from oomph.report.options import ReportOptions
from oomph.report.view import Source, View, prepare
from oomph.report.words import headline
from oomph.units import Amount

#: Names of the ledger's numbers in the document; the ledger's fields have `_bytes` after them.
_ENTRIES = (
    "capacity",
    "free",
    "other_processes",
    "process",
    "outside",
    "not_torch",
    "reserved",
    "allocated",
    "cached",
    "private_pool",
    "limit",
    "request",
    "segment",
)


def render_json(diagnosis: diagnose.Diagnosis, options: ReportOptions) -> str:
    """The whole answer, indented, in UTF-8 characters, ending in a newline."""
    document = msgspec.json.encode(_report(prepare(diagnosis, options)))
    return msgspec.json.format(document, indent=2).decode() + "\n"


def read_schema() -> str:
    """The published JSON Schema of what `render_json` returns."""
    return schemas.published("explain")


def schema_text() -> str:
    """The JSON Schema, generated from `wire`; the published file must equal it."""
    return schemas.generated("explain", wire.SCHEMA_VERSION, wire.Report)


def _report(view: View) -> wire.Report:
    diagnosis = view.diagnosis
    return wire.Report(
        schema_version="1",
        oomph_version=__version__,
        outcome=diagnosis.outcome.value,
        exit_code=diagnosis.exit_code,
        summary=headline(view),
        phase=None if view.phase is None else _phase(view.phase),
        incident=None if view.incident is None else _incident(view.incident),
        incidents=[_incident(incident) for incident in view.incidents],
        ranks=_ranks(diagnosis.ranks),
        findings=[wire_finding(finding) for finding in diagnosis.findings],
        ruled_out=[wire.RuledOut(cause=ruled.cause, why=ruled.why) for ruled in diagnosis.ruled_out],
        advice=None if diagnosis.advice is None else wire_advice(diagnosis.advice),
        job=[
            wire.Fact(name=fact.name, value=fact.value, rank=fact.rank, quote=_quote(fact.quote))
            for fact in diagnosis.job
        ],
        other_errors=_quotes(diagnosis.other_errors),
        notes=list(dict.fromkeys((*diagnosis.notes, *diagnosis.evidence.notes))),
        sources=[_source(source) for source in view.sources],
        plan=msgspec.UNSET if diagnosis.plan is None else wire_plan(diagnosis.plan),
    )


def _incident(incident: diagnose.Incident) -> wire.Incident:
    failure = incident.failure
    return wire.Incident(
        format=failure.format,
        kind=failure.kind.value,
        vendor=failure.vendor,
        status=incident.status,
        why_status=incident.why_status,
        rank=incident.rank,
        device=failure.device,
        raised=failure.raised,
        truncated=failure.truncated,
        artefacts=list(failure.artefacts),
        detail=dict(failure.detail),
        numbers={name: _size(amount) for name, amount in failure.numbers.items()},
        processes=[
            wire.Process(pid=process.pid, used=None if process.used is None else _size(process.used))
            for process in failure.processes
        ],
        phase=_phase(incident.phase),
        ledger=wire_ledger(incident.ledger),
        quote=_quote(failure.quote),
        copies=_quotes(copy.quote for copy in incident.copies),
    )


def _phase(verdict: diagnose.PhaseVerdict) -> wire.PhaseVerdict:
    frame = verdict.frame
    return wire.PhaseVerdict(
        phase=verdict.phase.value,
        evidence=verdict.evidence,  # type: ignore[arg-type] # the model documents these three words
        why=verdict.why,
        frame=None
        if frame is None
        else wire.Frame(file=frame.file, line=frame.line, function=frame.function, code=frame.code),
        quote=None if verdict.quote is None else _quote(verdict.quote),
        first_step=verdict.first_step,
        recompute=verdict.recompute,
    )


def wire_ledger(ledger: memory.Ledger) -> wire.Ledger:
    """The ledger as the document has it."""
    entries = {name: _entry(ledger, f"{name}_bytes") for name in _ENTRIES}
    return wire.Ledger(
        **entries,
        short_by_bytes=ledger.short_by_bytes,
        unexplained_bytes=ledger.unexplained_bytes,
        problems=[wire.Problem(code=problem.code, text=problem.text) for problem in ledger.problems],
    )


def _entry(ledger: memory.Ledger, field: str) -> wire.Entry | None:
    value: int | None = getattr(ledger, field)
    if value is None:
        return None
    return wire.Entry(
        bytes=value, slack_bytes=ledger.slack_bytes.get(field, 0), origin=ledger.origins.get(field, "")
    )


def _ranks(ranks: diagnose.RankVerdict) -> wire.Ranks:
    return wire.Ranks(
        first=ranks.first,
        how=ranks.how,
        failed=list(ranks.failed),
        consequences=[
            wire.Consequence(rank=rank, why=why) for rank, why in sorted(ranks.consequences.items())
        ],
        notes=list(ranks.notes),
    )


def wire_finding(finding: diagnose.Finding) -> wire.Finding:
    """A finding as the document has it."""
    return wire.Finding(
        code=finding.code,
        cause=finding.cause,
        name=finding.name,
        certainty=finding.certainty.value,
        says=finding.says,
        phase=finding.phase.value,
        rank=finding.rank,
        numbers=dict(finding.numbers),
        evidence=_quotes(finding.evidence),
        actions=list(finding.actions),
    )


def wire_advice(advice: diagnose.Advice) -> wire.Advice:
    """Advice as the document has it."""
    return wire.Advice(
        first=_step(advice.first),
        then=[_step(step) for step in advice.then],
        avoid=list(advice.avoid),
        collect=[_step(step) for step in advice.collect],
    )


def _step(step: diagnose.Step) -> wire.Step:
    return wire.Step(
        code=step.code,
        title=step.title,
        text=step.text,
        paste=step.paste,
        frees_bytes=step.frees_bytes,
        outcomes=[wire.Branch(outcome=outcome, then=then) for outcome, then in step.outcomes],
        predicted=msgspec.UNSET if step.predicted is None else _predicted(step.predicted),
    )


def _predicted(saving: planned.PredictedSaving) -> wire.Predicted:
    return wire.Predicted(
        change=saving.change,
        says=saving.says,
        frees_bytes=saving.frees_bytes,
        missing_bytes=saving.missing_bytes,
        enough=saving.enough,
        peak_bytes=saving.peak_bytes,
        doubtful=saving.doubtful,
    )


def wire_plan(plan: planned.PlannedJob) -> wire.PlannedJob:
    """The planned job as the document has it."""
    its = plan.agreement
    return wire.PlannedJob(
        agreement=wire.Agreement(
            verdict=its.verdict,  # type: ignore[arg-type] # the model documents these five words
            says=its.says,
            predicted_bytes=its.predicted_bytes,
            low_bytes=its.low_bytes,
            high_bytes=its.high_bytes,
            needed_bytes=its.needed_bytes,
        ),
        fields=[
            wire.JobField(
                path=field.path,
                value=field.value,
                says=field.says,
                quote=None if field.quote is None else _quote(field.quote),
            )
            for field in plan.fields
        ],
        assumptions=list(plan.assumptions),
        notes=list(plan.notes),
    )


def _source(source: Source) -> wire.Source:
    return wire.Source(
        source=source.name,
        lines=source.lines,
        size_bytes=source.size_bytes,
        rank=source.rank,
        attempt=source.attempt,
        partial=source.partial,
        notes=list(source.notes),
    )


def _size(amount: Amount) -> wire.Size:
    return wire.Size(bytes=amount.bytes, slack_bytes=amount.slack_bytes)


def _quote(quote: evidence.Quote) -> wire.Quote:
    return wire.Quote(source=quote.source, line=quote.line, text=quote.text)


def _quotes(quotes: Iterable[evidence.Quote]) -> list[wire.Quote]:
    return [_quote(quote) for quote in quotes]
