"""The table: what each program answered, how near it was, and how oomph did on the same rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.judge.answers import Answer
from benchmarks.judge.rows import Row
from benchmarks.judge.score import Score, score
from benchmarks.judge.verdicts import judge
from oomph.errors import OomphError
from oomph.hardware.names import gpu
from oomph.hardware.outside import available_bytes


@dataclass(frozen=True)
class Line:
    """One program. `described`: the score of the rows that it was told without stand-ins. `same`: oomph's score on
    the rows that the program answered; in `nearer` of these its error is the smaller one. `ooms` and `fits`: outcomes
    that it answered for. `reasons`: why rows have no answer, with how many."""

    name: str
    version: str
    rows: int
    all: Score
    described: Score
    same: Score
    false_fits: int
    ooms: int
    false_ooms: int
    fits: int
    reasons: dict[str, int]
    nearer: int = 0


def room(name: str) -> int | None:
    """Bytes that PyTorch can have on a card, at the least; None for one that is not known."""
    try:
        return available_bytes(gpu(name)).low_bytes
    except OomphError:
        return None


def line(
    said: Mapping[str, Any],
    verdicts: Mapping[str, Any],
    rows: Sequence[Row],
    verdict_rows: Sequence[Row],
    ours: Sequence[Answer],
) -> Line:
    """A program's line from its answers about the points and about the verdicts. It says that a job fits where its
    number fits what PyTorch can have on the card."""
    answered = [_answer(row, its) for row, its in zip(rows, said["answers"], strict=True)]
    mine = {each.row.id for each in answered if each.error is not None}
    plain = [
        each
        for each, its in zip(answered, said["answers"], strict=True)
        if each.error is not None and not its["stand_ins"]
    ]
    errors = {each.row.id: each.error for each in ours}
    nearer = [
        each
        for each in answered
        if each.error is not None
        and (own_error := errors.get(each.row.id)) is not None
        and abs(each.error) < abs(own_error)
    ]
    judged = judge([_answer(row, its) for row, its in zip(verdict_rows, verdicts["answers"], strict=True)])
    return Line(
        name=said["name"],
        version=said["version"],
        rows=len(rows),
        all=score(answered),
        described=score(plain),
        same=score([each for each in ours if each.row.id in mine]),
        false_fits=len(judged.false_fits) + len(judged.false_fits_extrapolated),
        ooms=judged.ooms,
        false_ooms=len(judged.false_ooms),
        fits=judged.fits,
        reasons=dict(Counter(its["reason"] for its in said["answers"] if its["reason"]).most_common()),
        nearer=len(nearer),
    )


def own(version: str, ours: Sequence[Answer], verdicts: Sequence[Answer]) -> Line:
    """oomph's own line."""
    judged = judge(verdicts)
    mine = score(ours)
    return Line(
        name="oomph",
        version=version,
        rows=len(ours),
        all=mine,
        described=mine,
        same=mine,
        false_fits=len(judged.false_fits) + len(judged.false_fits_extrapolated),
        ooms=judged.ooms,
        false_ooms=len(judged.false_ooms),
        fits=judged.fits,
        reasons=dict(Counter(each.unsupported for each in ours if each.unsupported).most_common()),
    )


def _answer(row: Row, its: Mapping[str, Any]) -> Answer:
    predicted = its["predicted"]
    if not predicted:
        return Answer(row, unsupported=its["reason"] or "no number")
    space = room(row.gpu)
    return Answer(
        row,
        predicted,
        predicted,
        predicted,
        fits=None if space is None else predicted <= space,
        capacity=space,
    )


def as_json(lines: Sequence[Line]) -> list[dict[str, Any]]:
    """The lines as JSON takes them."""
    return [asdict(each) for each in lines]


def as_markdown(lines: Sequence[Line]) -> str:
    """The table for the documentation."""
    head = (
        "| program | rows answered | without stand-ins | median | p90 | worst | bias | said to fit, ran out "
        "| said not to fit, ran | oomph on the same rows: median, p90 | nearer than oomph |"
    )
    out = [head, "|---" + "|--:" * 10 + "|"]
    for each in lines:
        its = each.all
        same = "" if each.name == "oomph" else f"{_share(each.same.median)}, {_share(each.same.p90)}"
        out.append(
            f"| {each.name} {each.version} | {its.n} of {each.rows} | {each.described.n} | {_share(its.median)} "
            f"| {_share(its.p90)} | {_share(its.worst)} | {_share(its.bias, True)} "
            f"| {each.false_fits} of {each.ooms} | {each.false_ooms} of {each.fits} | {same} "
            f"| {'' if each.name == 'oomph' else each.nearer} |"
        )
    return "\n".join(out)


def _share(value: float | None, sign: bool = False) -> str:
    if value is None:
        return "-"
    return f"{value:+.0%}" if sign and abs(value) >= 0.1 else f"{value:+.1%}" if sign else f"{value:.1%}"
