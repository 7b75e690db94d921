"""The words that the reports of a comparison share."""

from __future__ import annotations

from oomph.diagnose.verify.against.model import Against, Beside, Cause, Row
from oomph.report.plan.words import interval, phase_of, refusal
from oomph.units import format_bytes

Rows = list[tuple[str, ...]]


def headline(found: Against) -> str:
    """One sentence: whether the run needed what was predicted, and where not."""
    if not found.plan.ranks:
        return refusal(found.plan)
    judged = [row for row in found.rows if row.within is not None]
    wrong = [row for row in judged if not row.within]
    if not judged:
        return "Nothing could be compared: no phase that is predicted was recorded to its end"
    if not wrong:
        count = f"{len(judged)} phases lie" if len(judged) > 1 else f"{judged[0].phase.value} lies"
        return f"The run needed what was predicted: {count} within the interval"
    worst = max(wrong, key=lambda row: abs(row.difference or 0))
    more = f", and {len(wrong) - 1} more of {len(judged)} phases" if len(wrong) > 1 else ""
    return f"The run was not as predicted: {_apart(worst)}{more}"


def _apart(row: Row) -> str:
    assert row.predicted is not None
    assert row.recorded is not None
    span = interval(row.predicted.low_bytes, row.predicted.high_bytes)
    verb = "asked for" if row.recorded == row.needed else "allocated"
    return f"{phase_of(row.phase)} {format_bytes(row.recorded)} were {verb}, predicted {span}"


def signed(size: int) -> str:
    """A difference: "+1.20 GiB", "-64.00 MiB", "0 bytes"."""
    return f"+{format_bytes(size)}" if size > 0 else format_bytes(size)


def phase_rows(found: Against) -> Rows:
    """Heads and one row for each phase."""
    rows: Rows = [("phase", "predicted", "between", "recorded", "")]
    for row in found.rows:
        predicted = row.predicted
        rows.append(
            (
                row.phase.value,
                "" if predicted is None else format_bytes(predicted.allocated_bytes),
                "" if predicted is None else interval(predicted.low_bytes, predicted.high_bytes),
                _recorded(row),
                _verdict(row),
            )
        )
    return rows


def _recorded(row: Row) -> str:
    """The peak; with a "+" where that much was asked for and not there."""
    if row.recorded is None:
        return ""
    return format_bytes(row.recorded) + ("+" if row.recorded == row.needed else "")


def _verdict(row: Row) -> str:
    if row.within is None:
        return row.open
    return "within" if row.within else f"outside, {signed(row.difference or 0)}"


def first_step(found: Against) -> str:
    """What the first step needed where later ones needed something else; "" where that is nowhere."""
    told = [
        f"{row.phase.value} {format_bytes(row.first)} (later {format_bytes(row.later)})"
        for row in found.rows
        if row.first is not None and row.later is not None and row.first != row.later
    ]
    return f"The first step apart: {', '.join(told)}." if told else ""


def explained(row: Row) -> str:
    """What is left of a difference once the job is planned as the run had it; "" where nothing is to be said."""
    if row.within is not False or row.recorded is None:
        return ""
    if row.expected is None or row.expected_low is None or row.expected_high is None:
        return f"{phase_of(row.phase).capitalize()}: {signed(row.difference or 0)}, and nothing recorded explains it."
    span = interval(row.expected_low, row.expected_high)
    left = row.recorded - row.expected
    if row.expected_low <= row.recorded <= row.expected_high:
        return (
            f"{phase_of(row.phase).capitalize()}: explained. Planned as the run had it, {span} are predicted."
        )
    return (
        f"{phase_of(row.phase).capitalize()}: planned as the run had it, {span} are predicted; {signed(left)} are not "
        "explained."
    )


def cause_rows(found: Against) -> Rows:
    """For each difference what the run had, and what that changes in the prediction of which phase."""
    return [(cause.text, _worth(cause)) for cause in found.causes]


def _worth(cause: Cause) -> str:
    if cause.unsupported:
        return f"cannot be planned: {cause.unsupported}"
    sizes = [f"{phase.value} {signed(size)}" for phase, size in cause.bytes.items() if size]
    return ", ".join(sizes) if sizes else "changes nothing that is predicted"


def category_rows(found: Against) -> Rows:
    """Heads and one row for each category."""
    if found.categories is None:
        return []
    rows: Rows = [("category", "predicted", "recorded", "difference", "")]
    for row in found.categories.rows:
        rows.append(
            (
                row.category,
                format_bytes(row.predicted),
                format_bytes(row.recorded),
                signed(row.recorded - row.predicted),
                f"({row.certainty})" if row.certainty and row.certainty != "certain" else "",
            )
        )
    return rows


def beside_words(beside: Beside) -> list[str]:
    """Sentences about what of the card was not in tensors."""
    found = []
    if beside.cached is not None:
        planned = (
            ""
            if beside.cached_predicted is None
            else f" (predicted: {format_bytes(beside.cached_predicted)})"
        )
        found.append(
            f"The allocator held {format_bytes(beside.cached)} more than it had handed out at its most{planned}."
        )
    span = ""
    if beside.outside_low is not None and beside.outside_high is not None:
        span = f" (predicted: {interval(beside.outside_low, beside.outside_high)})"
    if beside.outside is not None:
        found.append(
            f"Outside of PyTorch's allocator this process had {format_bytes(beside.outside)} at most{span}."
        )
    elif beside.outside_with_others is not None:
        found.append(
            f"Outside of PyTorch's allocator were {format_bytes(beside.outside_with_others)} at most, with other "
            f"processes{span}."
        )
    if beside.others:
        found.append(
            f"Other processes had {format_bytes(beside.others)} of the card at most; no job says those."
        )
    return found
