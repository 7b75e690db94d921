"""The answer as a JSON document of a stable, published shape (`schema/bisect.schema.json`)."""

from __future__ import annotations

import msgspec

from oomph import __version__
from oomph.report import schemas
from oomph.report.bisect import wire
from oomph.report.clean import clean
from oomph.trial.answer import Answer
from oomph.trial.model import TrialResult, Variable


def render_json(answer: Answer) -> str:
    """The whole answer, indented, ending in a newline."""
    return msgspec.json.format(msgspec.json.encode(report(answer)), indent=2).decode() + "\n"


def report(answer: Answer) -> wire.Report:
    """The document."""
    found, chosen = answer.found, answer.recommended
    return wire.Report(
        schema_version="1",
        oomph_version=__version__,
        exit_code=answer.exit_code,
        verdict=found.verdict.value,
        summary=clean(found.why),
        causes=list(found.causes),
        setting=None if found.setting is None else dict(found.setting),
        command=[clean(word) for word in answer.command],
        engine=answer.engine,
        folder=clean(answer.folder),
        variables=[_variable(answer, one) for one in answer.variables],
        lines=[
            wire.Line(
                variable=name,
                phase=one.phase,
                slope_bytes=one.slope_bytes,
                base_bytes=one.base_bytes,
                points=list(one.points),
                deviation_bytes=one.deviation_bytes,
            )
            for name, lines in answer.lines.items()
            for one in lines
        ],
        recommended=None
        if chosen is None
        else wire.Recommended(
            setting=dict(chosen.setting),
            why=clean(chosen.why),
            peak_bytes=chosen.peak_bytes,
            measured=chosen.measured,
            headroom=chosen.headroom,
            enough=chosen.enough,
        ),
        trials=[_trial(one) for one in answer.trials],
        not_tested=[clean(each) for each in answer.not_tested],
        notes=[clean(each) for each in answer.notes],
        next_commands=[clean(each) for each in answer.next_commands],
    )


def read_schema() -> str:
    """The published JSON Schema of what `render_json` returns."""
    return schemas.published("bisect")


def schema_text() -> str:
    """The JSON Schema, generated from `wire`; the published file must equal it."""
    return schemas.generated("bisect", wire.SCHEMA_VERSION, wire.Report)


def _variable(answer: Answer, one: Variable) -> wire.Variable:
    limit = next(each for each in answer.found.limits if each.variable == one.name)
    return wire.Variable(
        name=one.name,
        kind=one.kind,  # type: ignore[arg-type] # one of the four
        target=one.target,
        values=list(one.values),
        halved=one.ordered,
        why_halved=one.why_ordered,
        cause=one.name in answer.found.causes,
        searched=limit.known,
        largest=limit.largest,
        fails=limit.fails,
        at=dict(limit.at),
    )


def _trial(one: TrialResult) -> wire.Trial:
    return wire.Trial(
        number=one.number,
        setting=dict(one.setting),
        outcome=one.outcome.value,
        why=clean(one.why),
        phase=one.phase,
        rank=one.rank,
        step=one.step,
        world_size=one.world_size,
        request_bytes=one.request_bytes,
        capacity_bytes=one.capacity_bytes,
        growth_bytes=one.growth_bytes,
        peaks=[
            wire.Peak(
                phase=peak.phase,
                allocated_bytes=peak.allocated_bytes,
                reserved_bytes=peak.reserved_bytes,
                rank=peak.rank,
                failed=peak.failed,
            )
            for peak in one.peaks
        ],
        seconds=one.seconds,
        exit_code=one.exit_code,
        directory=clean(one.directory),
        known_by=one.known_by,
    )
