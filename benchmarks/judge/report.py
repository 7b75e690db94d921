"""The judgement as JSON and as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from benchmarks.judge.answers import Answer
from benchmarks.judge.score import Score, score, scores_by
from benchmarks.judge.verdicts import Verdicts, judge

_GIB = 2**30


def as_json(points: Sequence[Answer], verdicts: Sequence[Answer]) -> dict[str, Any]:
    """All of it, as JSON takes it. Errors, bias, coverage and width are shares, sizes are bytes. Verdicts are judged on
    `verdicts` where there are any, else on the points, all of which ran."""
    said = judge(verdicts or points)
    total = score(points)
    return {
        **asdict(total),
        "false_fits": len(said.false_fits),
        "false_ooms": len(said.false_ooms),
        "verdicts": asdict(said),
        "unsupported": [
            {
                "id": each.row.id,
                "source": each.row.source,
                "reason": each.unsupported,
                "crashed": each.crashed,
            }
            for each in (
                *points,
                *(each for each in verdicts if each.row.id not in {p.row.id for p in points}),
            )
            if each.unsupported is not None
        ],
        "by_source": _by(points, lambda each: each.row.title),
        "by_metric": _by(points, lambda each: each.row.metric),
        "by_situation": _by(
            [each for each in points if each.situation], lambda each: f"{each.row.metric} {each.situation}"
        ),
        "rows": [_row(each) for each in points],
        "verdict_rows": [_row(each) for each in verdicts],
    }


def _by(answers: Sequence[Answer], key: Any) -> dict[str, Any]:
    return {name: asdict(its) for name, its in scores_by(answers, key).items()}


def _row(each: Answer) -> dict[str, Any]:
    return {
        "id": each.row.id,
        "source": each.row.source,
        "metric": each.row.metric,
        "measured": each.row.measured,
        "predicted": each.predicted,
        "low": each.low,
        "high": each.high,
        "error": each.error,
        "phase": each.phase,
        "situation": each.situation,
        "outcome": each.row.outcome,
        "fits": each.fits,
        "capacity": each.capacity,
        "unsupported": each.unsupported,
        "ignored": list(each.row.ignored),
    }


def as_text(points: Sequence[Answer], verdicts: Sequence[Answer]) -> str:
    """What a person reads: the rows, the sources, the counters, the verdicts."""
    lines = [*_rows(points), ""]
    lines += _table("by source", scores_by(points, lambda each: each.row.title))
    lines += _table("by counter", scores_by(points, lambda each: each.row.metric))
    lines += _table(
        "by situation", scores_by([p for p in points if p.situation], lambda each: str(each.situation))
    )
    lines += _table("in all", {"all": score(points)})
    lines += _verdicts(judge(verdicts or points))
    missing = [each for each in (*points, *verdicts) if each.unsupported is not None]
    if missing:
        lines += ["", f"unsupported ({len(missing)}):"]
        lines += [f"  {each.row.id}: {each.unsupported}" for each in missing]
    return "\n".join(lines)


def _rows(points: Sequence[Answer]) -> list[str]:
    lines = [
        f"{'row':24} {'counter':13} {'measured':>9} {'predicted':>9} {'error':>7}  {'interval (GiB)':17}  phase"
    ]
    for each in points:
        row = each.row
        measured = "-" if row.measured is None else f"{row.measured / _GIB:.2f}"
        if each.predicted is None or each.low is None or each.high is None:
            lines.append(f"{row.id:24} {row.metric:13} {measured:>9} unsupported")
            continue
        interval = f"{each.low / _GIB:.2f}-{each.high / _GIB:.2f}"
        lines.append(
            f"{row.id:24} {row.metric:13} {measured:>9} {each.predicted / _GIB:9.2f} {_share(each.error, True):>7}  "
            f"{interval:15} {' ' if each.covered else '!'} {each.phase} ({each.situation})"
        )
    return lines


def _table(title: str, scores: Mapping[str, Score]) -> list[str]:
    lines = [
        f"{title:44} {'rows':>4} {'median':>7} {'p90':>7} {'worst':>7} {'bias':>7} {'covered':>7} {'width':>7}"
    ]
    for name, its in scores.items():
        shares = [_share(its.median), _share(its.p90), _share(its.worst), _share(its.bias, True)]
        shares += [_share(its.coverage), _share(its.width)]
        lines.append(f"{name[:44]:44} {its.n:4} " + " ".join(f"{each:>7}" for each in shares))
    return [*lines, ""]


def _verdicts(said: Verdicts) -> list[str]:
    judged = f"verdicts: {said.judged} judged ({said.ooms} ran out of memory, {said.fits} ran)"
    return [
        f"{judged}, {len(said.unjudged)} without a card or a prediction",
        f"  said to fit, ran out: {_ids(said.false_fits)}",
        f"  said to fit, ran out by extrapolation: {_ids(said.false_fits_extrapolated)}",
        f"  said not to fit, ran: {_ids(said.false_ooms)}",
        f"  not said: {len(said.unsure_ooms)} that ran out, {_ids(said.unsure_fits)} of those that ran",
    ]


def _ids(ids: Sequence[str]) -> str:
    return f"{len(ids)} ({', '.join(ids)})" if ids else "0"


def _share(value: float | None, sign: bool = False) -> str:
    if value is None:
        return "-"
    return f"{value:+.1%}" if sign else f"{value:.1%}"
