"""The answer as a JSON document of a stable, published shape (`schema/plan.schema.json`)."""

from __future__ import annotations

from typing import Any

import msgspec

from oomph import __version__
from oomph.job.model import Job
from oomph.predict import model
from oomph.report import schemas
from oomph.report.plan import wire
from oomph.report.plan.words import exit_code, headline, highest, merged, needs, room_of


def render_json(plan: model.Plan, shown: model.RankPlan | None = None) -> str:
    """The whole answer, indented, in UTF-8 characters, ending in a newline."""
    return msgspec.json.format(msgspec.json.encode(report(plan, shown)), indent=2).decode() + "\n"


def report(plan: model.Plan, shown: model.RankPlan | None = None) -> wire.Report:
    """The document."""
    chosen = shown or (plan.worst if plan.ranks else None)
    return wire.Report(
        schema_version="1",
        oomph_version=__version__,
        exit_code=exit_code(plan),
        summary=headline(plan, shown),
        fits=plan.fits,
        fails_in=None if plan.fails_in is None else plan.fails_in.value,
        capacity_bytes=plan.capacity_bytes,
        room_bytes=room_of(plan, chosen),
        parameters=plan.parameters,
        trainable=plan.trainable,
        job=job_table(plan.job),
        shown=None if chosen is None else plan.ranks.index(chosen),
        ranks=[_rank(rank) for rank in plan.ranks],
        host=_host(plan),
        assumptions=list(plan.assumptions),
        unsupported=list(plan.unsupported),
        notes=list(plan.notes),
        counters=dict(plan.counters),
    )


def job_table(job: Job) -> dict[str, Any]:
    """The job as a table; the model's configuration as config.json has it, versions by library."""
    table: dict[str, Any] = msgspec.to_builtins(job)
    table["model"]["config"] = {each["key"]: each["value"] for each in table["model"]["config"]}
    table["framework"]["versions"] = dict(table["framework"]["versions"])
    return table


def read_schema() -> str:
    """The published JSON Schema of what `render_json` returns."""
    return schemas.published("plan")


def schema_text() -> str:
    """The JSON Schema, generated from `wire`; the published file must equal it."""
    return schemas.generated("plan", wire.SCHEMA_VERSION, wire.Report)


def _rank(rank: model.RankPlan) -> wire.Rank:
    peak = highest(rank)
    low, high = needs(rank)
    return wire.Rank(
        ranks=rank.ranks,
        first_rank=rank.first_rank,
        peak_phase=peak.phase.value,
        low_bytes=low,
        high_bytes=high,
        phases=[_phase(each) for each in rank.phases.values()],
        end_allocated_bytes=rank.end_allocated_bytes,
        outside=wire.Outside(
            low_bytes=rank.outside.low_bytes,
            high_bytes=rank.outside.high_bytes,
            parts=[
                wire.OutsidePart(name=name, low_bytes=least, high_bytes=most)
                for name, least, most in rank.outside.parts
            ],
        ),
        replay=_replay(rank),
    )


def _phase(peak: model.PhasePeak) -> wire.PhasePeak:
    return wire.PhasePeak(
        phase=peak.phase.value,
        allocated_bytes=peak.allocated_bytes,
        low_bytes=peak.low_bytes,
        high_bytes=peak.high_bytes,
        reserved_bytes=peak.reserved_bytes,
        reserved_low_bytes=peak.reserved_low_bytes,
        reserved_high_bytes=peak.reserved_high_bytes,
        where=peak.where,
        terms=[
            wire.Term(name=term.name, category=term.category.value, bytes=term.bytes, formula=term.formula)
            for term in merged(peak.terms)
        ],
    )


def _replay(rank: model.RankPlan) -> wire.Replay | None:
    played = rank.replay
    if played is None:
        return None
    return wire.Replay(
        orders_played=played.orders_played,
        orders_failed=played.orders_failed,
        fits=played.fits,
        fails_in=None if played.fails_in is None else played.fails_in.value,
    )


def _host(plan: model.Plan) -> wire.Host | None:
    host = plan.host
    if host is None:
        return None
    return wire.Host(
        load_bytes=host.load_bytes,
        train_bytes=host.train_bytes,
        available_bytes=plan.job.hardware.host_bytes,
        parts=[wire.HostPart(name=name, bytes=size) for name, size in host.parts],
    )
