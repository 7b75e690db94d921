"""The answers as JSON documents of stable, published shapes."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from oomph import __version__
from oomph.diagnose.runs.model import Change, RunFacts, RunsDiff, Suspect
from oomph.evidence.run.data import Peaks, PhaseSummary, RankData, RunData
from oomph.report import schemas
from oomph.report.runs import wire
from oomph.report.runs.diff_words import diff_exit_code, diff_headline
from oomph.report.runs.words import peaks_of, started, whole

#: Schema name -> the type of its document.
DOCUMENTS: dict[str, type[msgspec.Struct]] = {
    "runs-list": wire.ListReport,
    "runs-show": wire.ShowReport,
    "runs-diff": wire.DiffReport,
}


def list_json(runs: Sequence[RunFacts], left_out: int, query: str | None, notes: Sequence[str]) -> str:
    """`oomph runs list --format json`."""
    return _text(
        wire.ListReport(
            schema_version=wire.SCHEMA_VERSION,
            oomph_version=__version__,
            query=query,
            runs=[row(run) for run in runs],
            left_out=left_out,
            notes=list(notes),
        )
    )


def show_json(facts: RunFacts, data: RunData, notes: Sequence[str]) -> str:
    """`oomph runs show --format json`."""
    failed = data.first_failure
    return _text(
        wire.ShowReport(
            schema_version=wire.SCHEMA_VERSION,
            oomph_version=__version__,
            run=row(facts),
            failed=None
            if failed is None
            else wire.Failed(
                ranks=list(failed.ranks),
                certain=failed.certain,
                why=failed.why,
                phase=facts.text("failed.phase"),
                victims=list(failed.victims),
            ),
            exit_code=None if data.end is None else data.end.exit_code,
            ranks=[_rank(each) for each in data.ranks.values()],
            missing_ranks=list(data.missing),
            facts=dict(sorted(facts.values.items())),
            missing=facts.missing,
            notes=[*data.notes, *notes],
        )
    )


def diff_json(diff: RunsDiff, notes: Sequence[str] = ()) -> str:
    """`oomph runs diff --format json`."""
    planned = diff.planned
    return _text(
        wire.DiffReport(
            schema_version=wire.SCHEMA_VERSION,
            oomph_version=__version__,
            exit_code=diff_exit_code(diff),
            summary=diff_headline(diff),
            run=row(diff.run),
            others=[row(each) for each in diff.others],
            suspects=[_suspect(each) for each in diff.suspects],
            memory=[
                wire.Memory(
                    fact=each.key,
                    label=each.label,
                    is_bytes=each.is_bytes,
                    before=each.before,
                    after=each.after,
                    difference=each.difference,
                    low=each.low,
                    high=each.high,
                    beyond=each.beyond,
                )
                for each in diff.memory
            ],
            equal=diff.equal,
            planned=None
            if planned is None
            else wire.Planned(
                why=planned.why,
                before_bytes=planned.before_bytes,
                after_bytes=planned.after_bytes,
                phases=[
                    wire.PlannedPhase(phase=name, before_bytes=a, after_bytes=b)
                    for name, a, b in planned.phases
                ],
            ),
            notes=[*diff.notes, *notes],
        )
    )


def row(run: RunFacts) -> wire.RunRow:
    """A run in short."""
    return wire.RunRow(
        id=run.id,
        name=run.name,
        path=run.path,
        started=started(run),
        outcome=run.outcome,
        world_size=whole(run, "world_size"),
        gpu=run.text("gpu.name"),
        model=run.text("model.id"),
        steps=whole(run, "steps"),
        capacity_bytes=whole(run, "capacity"),
        peak_bytes=whole(run, "peak"),
        peak_phase=run.text("peak.phase"),
        reserved_bytes=whole(run, "peak.reserved"),
        phases=peaks_of(run),
    )


def read_schema(name: str) -> str:
    """The published JSON Schema of one of `DOCUMENTS`."""
    return schemas.published(name)


def schema_text(name: str) -> str:
    """The schema, generated from `wire`; the published file must equal it."""
    return schemas.generated(name, wire.SCHEMA_VERSION, DOCUMENTS[name])


def _rank(rank: RankData) -> wire.RankRow:
    header = rank.header
    return wire.RankRow(
        rank=rank.rank,
        outcome=rank.outcome.value,
        why=rank.why,
        host=None if header is None else header.host,
        device=None if header is None else header.device or None,
        capacity_bytes=None if header is None else header.capacity_bytes,
        steps=rank.steps_completed,
        ooms=len(rank.ooms),
        doing=None if rank.doing is None else rank.doing.phase.value,
        phases=[_phase(each) for each in rank.summaries.values()],
        notes=[note.text for note in rank.notes],
    )


def _phase(summary: PhaseSummary) -> wire.PhaseRow:
    return wire.PhaseRow(phase=summary.phase.value, first=_peaks(summary.first), later=_peaks(summary.later))


def _peaks(peaks: Peaks | None) -> wire.Peaks | None:
    if peaks is None:
        return None
    return wire.Peaks(
        records=peaks.records,
        seconds=peaks.seconds,
        allocated_bytes=peaks.allocated_bytes,
        reserved_bytes=peaks.reserved_bytes,
        active_bytes=peaks.active_bytes,
        within_bytes=peaks.growth_bytes,
        step=peaks.step,
        retries=peaks.retries,
        ooms=peaks.ooms,
        free_bytes=peaks.free_bytes,
        outside_bytes=peaks.outside_bytes,
        other_processes_bytes=peaks.other_processes_bytes,
        rss_bytes=peaks.rss_bytes,
        pinned_bytes=peaks.pinned_bytes,
        batch={name: list(shape) for name, shape in peaks.batch.items()},
    )


def _suspect(each: Suspect) -> wire.Suspect:
    return wire.Suspect(
        change=_change(each.change),
        kind=each.kind,
        suspicion=str(each.suspicion),
        effect=each.effect,
        expected_bytes=each.expected_bytes,
        phases=list(each.phases),
        sources=list(each.sources),
        also=[_change(change) for change in each.also],
    )


def _change(change: Change) -> wire.Change:
    return wire.Change(fact=change.key, before=change.before, after=change.after, others=dict(change.others))


def _text(report: msgspec.Struct) -> str:
    return msgspec.json.format(msgspec.json.encode(report), indent=2).decode() + "\n"
