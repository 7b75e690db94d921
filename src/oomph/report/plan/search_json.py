"""Searches for what fits as a JSON document of a stable, published shape (`schema/plan-search.schema.json`)."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from oomph import __version__
from oomph.job.model import Job
from oomph.remedy import largest as remedy_largest
from oomph.remedy import machines as remedy_machines
from oomph.remedy import search
from oomph.remedy.changes import Change
from oomph.remedy.choice import Choice
from oomph.remedy.costs import FORMULAS, Cost
from oomph.report import schemas
from oomph.report.plan import fit_words, search_words
from oomph.report.plan import search_wire as wire
from oomph.report.plan.json import job_table
from oomph.report.plan.words import refusal


def render_fit(found: search.FitResult) -> str:
    """What makes it fit."""
    refused = not found.base.ranks
    fit = wire.Fit(
        failing=[phase.value for phase in found.failing],
        step_seconds=None if found.base_cost is None else found.base_cost.seconds,
        choices=[_choice(found, each) for each in found.choices],
        nearest=None if found.nearest is None else _choice(found, found.nearest),
        not_allowed=[_change(each, found.base.job) for each in found.not_allowed],
        tried=found.tried,
        complete=found.complete,
    )
    summary = refusal(found.base) if refused else fit_words.headline(found)
    code = fit_words.exit_code(found)
    return _document(
        summary,
        code,
        found.base.job,
        found.room_bytes,
        fit=fit,
        unsupported=found.base.unsupported,
        notes=fit_words.notes(found),
    )


def render_largest(found: remedy_largest.Largest, job: Job) -> str:
    """The largest that fits."""
    largest = wire.Largest(
        what=found.what,
        value=found.value,
        peak_bytes=found.peak_bytes,
        next_bytes=found.next_bytes,
        layers=found.layers,
    )
    summary = search_words.largest_headline(found)
    notes = search_words.largest_notes(found, job)
    return _document(
        summary, 1 if found.value == 0 else 0, job, found.room_bytes, largest=largest, notes=notes
    )


def render_machines(found: Sequence[remedy_machines.MachineFit], job: Job) -> str:
    """Machines compared."""
    machines = [
        wire.MachineFit(
            machine=each.machine.name,
            provider=each.machine.provider,
            gpu=each.machine.gpu,
            gpus=each.machine.count,
            peak_bytes=each.peak_bytes,
            capacity_bytes=each.capacity_bytes,
            fits=each.fits,
            step_seconds=None if each.cost is None else each.cost.seconds,
            same_batch=each.same_batch,
            refused=each.refused,
        )
        for each in found
    ]
    summary = search_words.machines_headline(found)
    code = 0 if any(each.fits for each in found) else 1
    return _document(summary, code, job, None, machines=machines, notes=search_words.machine_notes(found))


def read_schema() -> str:
    """The published JSON Schema of what these functions return."""
    return schemas.published("plan-search")


def schema_text() -> str:
    """The JSON Schema, generated from the types; the published file must equal it."""
    return schemas.generated("plan-search", wire.SCHEMA_VERSION, wire.Report)


def _document(
    summary: str,
    code: int,
    job: Job,
    room: int | None,
    *,
    fit: wire.Fit | None = None,
    largest: wire.Largest | None = None,
    machines: list[wire.MachineFit] | None = None,
    unsupported: Sequence[str] = (),
    notes: Sequence[str] = (),
) -> str:
    report = wire.Report(
        schema_version="1",
        oomph_version=__version__,
        exit_code=code,
        summary=summary,
        room_bytes=room,
        job=job_table(job),
        fit=fit,
        largest=largest,
        machines=machines,
        unsupported=list(unsupported),
        notes=list(notes),
    )
    return msgspec.json.format(msgspec.json.encode(report), indent=2).decode() + "\n"


def _choice(found: search.FitResult, choice: Choice) -> wire.Choice:
    before: Cost | None = found.base_cost
    changes = []
    job = found.base.job
    for change in choice.changes:
        changes.append(_change(change, job))
        job = change.apply(job)
    return wire.Choice(
        changes=changes,
        peak_bytes=choice.peak_bytes,
        upper_bytes=choice.upper_bytes,
        step_seconds=choice.cost.seconds,
        time=None if before is None else choice.cost.per_token / before.per_token,
        fidelity=choice.fidelity,
        fits=None if choice.plan is None else choice.plan.fits,
        parts=[
            wire.Part(name=name, seconds=value, formula=FORMULAS[name]) for name, value in choice.cost.parts
        ],
        job=job_table(choice.job),
    )


def _change(change: Change, job: Job) -> wire.Change:
    return wire.Change(
        code=change.code,
        title=change.title,
        numerics=change.numerics,
        effort=change.effort,
        allow=change.needs,
        lines=list(change.lines(job)),
        verify=change.verify(job),
    )
