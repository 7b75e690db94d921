"""The judgement as the tables of docs/plan-accuracy.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchmarks.judge.answers import Answer
from benchmarks.judge.score import Score, score, scores_by
from benchmarks.judge.verdicts import Verdicts, judge

_HEAD = "| rows | median | p90 | worst | bias | in the interval | width |\n|---|--:|--:|--:|--:|--:|--:|--:|"


def as_markdown(points: Sequence[Answer], verdicts: Sequence[Answer]) -> str:
    """Per source, in all, per counter; the verdicts; what has no prediction."""
    made = [each for each in points if each.unsupported is None]
    parts = [f"{len(made)} of {len(points)} points have a prediction."]
    sources = {**scores_by(points, lambda each: each.row.title), "**all**": score(points)}
    parts.append("\n".join([f"| source {_HEAD}", *_rows(sources)]))
    counters = scores_by(points, lambda each: f"`{each.row.metric}`")
    parts.append("\n".join([f"| counter {_HEAD}", *_rows(counters)]))
    if verdicts:
        parts.append(_verdicts(judge(verdicts)))
    missing = [each for each in (*points, *verdicts) if each.unsupported is not None]
    if missing:
        parts.append(
            "\n".join(
                ["Without a prediction:", *(f"- {each.row.id}: {each.unsupported}" for each in missing)]
            )
        )
    return "\n\n".join(parts) + "\n"


def _rows(scores: Mapping[str, Score]) -> list[str]:
    return [
        f"| {name} | {its.n} | {_share(its.median)} | {_share(its.p90)} | {_share(its.worst)} | "
        f"{_share(its.bias, sign=True)} | {_share(its.coverage)} | {_share(its.width)} |"
        for name, its in scores.items()
    ]


def _share(value: float | None, *, sign: bool = False) -> str:
    if value is None:
        return ""
    text = f"{100 * value:+.1f} %" if sign else f"{100 * value:.1f} %"
    return text.replace("-", "−").replace("−0.0 %", "0.0 %").replace("+0.0 %", "0.0 %")


def _verdicts(said: Verdicts) -> str:
    return (
        f"Verdicts: {said.judged} runs with a known card ({said.ooms} ran out of memory, {said.fits} ran). Said to fit "
        f"and ran out: {_ids(said.false_fits)}; said to fit and ran out by extrapolation: "
        f'{_ids(said.false_fits_extrapolated)}; said not to fit and ran: {_ids(said.false_ooms)}. "May or may not": '
        f"{len(said.unsure_ooms)} of those that ran out, {len(said.unsure_fits)} of those that ran."
    )


def _ids(ids: Sequence[str]) -> str:
    return f"{len(ids)} ({', '.join(ids)})" if ids else "0"
