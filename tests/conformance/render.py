"""A tally as text and as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict
from itertools import groupby

from tests.conformance.claims import Claims
from tests.conformance.labels import Label
from tests.conformance.score import Tally

_RATES = (
    (
        "numbers",
        "numbers_right",
        "numbers_total",
        "to the byte; a number that is not printed must not be claimed",
    ),
    ("phase", "phase_right", "phase_total", "where a frame or a log line proves one"),
    ("cause, first", "cause_right", "cause_total", "labels of high confidence"),
    ("cause, among", "cause_ranked", "cause_ranked_total", "labels of medium confidence"),
    ("first action", "first_action_right", "first_action_total", "of the kind for our own first cause"),
    ("first fix", "first_fix_right", "first_fix_total", "of the kind for the labelled cause, high only"),
    ("format", "format_right", "format_total", "the message family"),
    ("rank", "rank_right", "rank_total", "of the reported failure"),
    ("first rank", "first_rank_right", "first_rank_total", "that failed"),
)
_MISTAKES = (
    ("phases guessed", "phase_guessed", "where nothing proves one"),
    ("false alarms", "false_alarms", "a failure reported where there is none"),
    ("exit codes wrong", "exit_wrong", "the job recovered or ended well"),
    ("not reported", "not_reported", "the job died for lack of memory and we do not say so"),
    ("false mentions", "false_mentions", "an out-of-memory listed in a log that has none"),
    ("crashes", "crashes", ""),
)


def as_json(tally: Tally) -> str:
    """All counters and misses as one JSON object."""
    return json.dumps(asdict(tally), indent=1, ensure_ascii=False)


def as_text(tally: Tally, folder: str) -> str:
    """The rates, then every miss under its log."""
    rows = [f"{tally.logs} logs in {folder}", ""]
    for name, right, total, note in _RATES:
        of, all_of = getattr(tally, right), getattr(tally, total)
        percent = f"{100 * of / all_of:.1f} %" if all_of else "-"
        rows.append(f"  {name:<17}{of:>5} of {all_of:<5}{percent:>8}   {note}".rstrip())
    rows.append("")
    rows.extend(f"  {name:<17}{getattr(tally, key):>5}   {note}".rstrip() for name, key, note in _MISTAKES)
    rows.append("")
    if not tally.misses:
        rows.append("No misses.")
    for log, misses in groupby(tally.misses, key=lambda miss: miss.log):
        rows.append(log)
        rows.extend(f"    {each.what}: expected {each.expected}, got {each.got}" for each in misses)
    return "\n".join(rows)


def one_line(label: Label, claims: Claims) -> str:
    """One log's answer, for -v."""
    if claims.crash:
        return f"{label.log}: {claims.crash}"
    cause = claims.causes[0] if claims.causes else "no finding"
    return (
        f"{label.log}: {claims.outcome}, {claims.format}, rank {claims.rank}, {claims.phase}, {cause}, "
        f"{claims.first_action or 'no action'}"
    )
