"""Rows and sentences of runs held against each other that text and Markdown share."""

from __future__ import annotations

from oomph.diagnose.runs.model import Change, MemoryChange, RunsDiff, Suspect, Suspicion, Value
from oomph.report.runs.words import size, tidy
from oomph.units import format_bytes

#: Characters of a value.
_VALUE = 60
#: What people read for a suspicion.
SUSPICION = {
    Suspicion.EXPLAINS: "explains it",
    Suspicion.LIKELY: "likely",
    Suspicion.POSSIBLE: "possible",
    Suspicion.UNLIKELY: "unlikely",
    Suspicion.HARMLESS: "harmless",
}


def signed(value: int | None) -> str:
    """A difference with its sign."""
    if value is None:
        return "-"
    return f"+{format_bytes(value)}" if value > 0 else format_bytes(value)


def diff_headline(diff: RunsDiff) -> str:
    """What sets the runs apart, in a sentence."""
    against = diff.others[0].label if not diff.against_many else f"{len(diff.others)} others"
    best = next((each for each in diff.suspects if each.suspicion >= Suspicion.POSSIBLE), None)
    peak = next((each for each in diff.memory if each.key == "peak"), None)
    moved = ""
    if peak is not None and peak.beyond and peak.difference is not None:
        moved = f"the highest peak is {size(peak.after)} instead of {size(peak.before)} ({signed(peak.difference)})"
    elif diff.memory and not _moved(diff):
        moved = "memory is the same"
    else:
        moved = _elsewhere(diff)
    cause = (
        ""
        if best is None
        else (
            f"first suspect: {best.change.key} {value_words(best.change.before)} -> {value_words(best.change.after)}"
        )
    )
    said = "; ".join(filter(None, (moved, cause))) or "nothing that matters to memory differs"
    return f"{tidy(diff.run.label)} against {tidy(against)}: {said}"


def _elsewhere(diff: RunsDiff) -> str:
    """Where memory moved while the highest peak stayed."""
    phases = [
        each
        for each in diff.memory
        if each.beyond and each.difference and each.key.count(".") == 2 and each.key.endswith(".peak")
    ]
    if not phases:
        return ""
    most = max(phases, key=lambda each: abs(each.difference or 0))
    return f"{most.label} has a peak of {size(most.after)} instead of {size(most.before)} ({signed(most.difference)})"


def diff_exit_code(diff: RunsDiff) -> int:
    """1 where something differs that matters to memory, 0 where nothing does."""
    suspicious = any(each.suspicion >= Suspicion.POSSIBLE for each in diff.suspects)
    return int(suspicious or _moved(diff))


def _moved(diff: RunsDiff) -> bool:
    """Whether memory of the GPU changed; main memory and another card's size are no change of it."""
    return any(
        each.beyond and each.is_bytes and not each.key.startswith(("host.", "capacity"))
        for each in diff.memory
    )


def value_words(value: Value | None) -> str:
    """A value, or that there is none."""
    return "(not set)" if value is None else tidy(value, _VALUE)


def change_words(change: Change) -> str:
    """`name: before -> after`, sizes as sizes."""
    before, after = (_as_size(change.key, value) for value in (change.before, change.after))
    return f"{change.key}: {before} -> {after}"


def _as_size(key: str, value: Value | None) -> str:
    if isinstance(value, int) and key in ("other_processes", "capacity", "gpu.strangers"):
        return format_bytes(value)
    return value_words(value)


def others_words(change: Change) -> str:
    """How the others are divided, where they are not alike."""
    if len(change.others) < 2:
        return ""
    listed = [
        f"{tidy(value, 30) or '(not set)'} in {count}" for value, count in list(change.others.items())[:4]
    ]
    more = f", and {len(change.others) - 4} more values" if len(change.others) > 4 else ""
    return f"the others differ too: {', '.join(listed)}{more}"


def suspect_words(suspect: Suspect, diff: RunsDiff) -> list[str]:
    """Sentences under a suspect: what it does, what was expected and recorded, what tells the same, where it "
    "is written."""
    lines = [tidy(suspect.effect[:1].upper() + suspect.effect[1:], 2000) + "."]
    if suspect.expected_bytes is not None:
        recorded = _recorded(suspect, diff)
        lines.append(f"Expected of it: {signed(suspect.expected_bytes)}{recorded}.")
    if suspect.also:
        lines.append(
            "The same by other names: " + "; ".join(change_words(each) for each in suspect.also) + "."
        )
    told = others_words(suspect.change)
    if told:
        lines.append(told[:1].upper() + told[1:] + ".")
    if suspect.sources:
        lines.append("Source: " + "; ".join(suspect.sources) + ".")
    return lines


def _recorded(suspect: Suspect, diff: RunsDiff) -> str:
    for phase in reversed(suspect.phases or ()):
        found = next((each for each in diff.memory if each.key == f"phase.{phase}.peak"), None)
        if found is not None and found.difference is not None:
            return f"; recorded in {phase}: {signed(found.difference)}"
    return ""


def memory_rows(diff: RunsDiff, everything: bool) -> list[list[str]]:
    """Heads and a row for each number; without `everything`, phases and what differs."""
    rows = [
        [
            "",
            "others" if diff.against_many else "before",
            "this run" if diff.against_many else "after",
            "difference",
        ]
    ]
    beyond = {each.key for each in diff.memory if each.beyond}
    rows += [
        [each.label, _before(each), _number(each, each.after), _difference(each)]
        for each in diff.memory
        if everything or _is_shown(each, beyond)
    ]
    return rows if len(rows) > 1 else []


def _is_shown(each: MemoryChange, beyond: set[str]) -> bool:
    """Peaks of phases; their first and later steps where only one of the two differs; whatever else differs."""
    name, _, last = each.key.rpartition(".")
    if not name.startswith("phase."):
        return each.beyond
    if last == "reserved":
        return False
    phase, _, which = name.rpartition(".")
    if which not in ("first", "later"):
        return True
    return (f"{phase}.first.peak" in beyond) != (f"{phase}.later.peak" in beyond)


def _before(each: MemoryChange) -> str:
    """The others' number, or from their least to their largest."""
    low, high = _number(each, each.low), _number(each, each.high)
    return low if low == high else f"{low} to {high}"


def _difference(each: MemoryChange) -> str:
    if each.difference is None:
        return "-"
    if not each.beyond:
        return "same" if each.difference == 0 else "noise"
    return signed(each.difference) if each.is_bytes else f"{each.difference:+,}"


def _number(each: MemoryChange, value: int | None) -> str:
    if value is None:
        return "-"
    return format_bytes(value) if each.is_bytes else f"{value:,}"


def planned_words(diff: RunsDiff) -> list[str]:
    """What the plans say."""
    planned = diff.planned
    if planned is None:
        return []
    if planned.before_bytes is None or planned.after_bytes is None:
        return [planned.why] if planned.why else []
    difference = planned.after_bytes - planned.before_bytes
    first = (
        f"By the plans of both jobs the change is worth {signed(difference)} at the highest peak: "
        f"{format_bytes(planned.before_bytes)} -> {format_bytes(planned.after_bytes)}."
    )
    phases = [f"{name} {format_bytes(a)} -> {format_bytes(b)}" for name, a, b in planned.phases if a != b]
    return [
        first,
        *([f"By phase: {'; '.join(phases)}."] if phases else []),
        *([planned.why] if planned.why else []),
    ]
