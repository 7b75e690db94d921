"""A run held against one or many others: what differs, the most suspicious first."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from oomph.diagnose.runs.model import Change, RunFacts, RunsDiff, Suspect, Suspicion, Value, as_number
from oomph.diagnose.runs.situation import Situation, situation
from oomph.diagnose.runs.suspects import kind_for
from oomph.diagnose.runs.suspects.base import Judged

#: Facts that are measured: they are effects, and compared as memory.
_MEASURED = re.compile(
    r"(?:category|phase|peak|alive|forward|backward|free|growth|host|steps|retries|ooms|outside|seconds|outcomes|failed|attempts"
    r"|exit_code|signal|ranks|note)(?:\.|\Z)"
)
#: Measured, and causes all the same: they come from elsewhere.
_CAUSES = ("other_processes", "gpu.strangers", "note.neighbour")
#: Kinds of settings that decide the shapes of batches, the most direct first; and shapes, the most telling first.
_SHAPING = ("batch", "sequence", "data", "padding")
_SEEN = ("batch.elements", "batch.length", "batch.rows", "batch.longest")


def diff(run: RunFacts, others: Sequence[RunFacts]) -> RunsDiff:
    """What sets `run` apart from `others`, of which there is at least one. With several, a fact counts as changed where
    none of them has the run's value; one in which they differ among themselves is less suspicious."""
    placed = situation(run, others)
    keys = sorted({key for each in (run, *others) for key in each.values if _is_setting(key)})
    suspects, equal = [], 0
    for key in keys:
        change = _change(key, run, others)
        if change is None:
            equal += 1
        else:
            suspects.append(_suspect(change, placed))
    ordered = sorted(_joined(suspects), key=lambda each: (-each.suspicion, -each.weight, each.change.key))
    return RunsDiff(
        run=run,
        others=tuple(others),
        suspects=tuple(ordered),
        memory=tuple(placed.memory.values()),
        equal=equal,
        notes=tuple(_notes(run, others, placed)),
    )


def _is_setting(key: str) -> bool:
    return key in _CAUSES or _MEASURED.match(key) is None


def _unknown(key: str, run: RunFacts) -> bool:
    """Whether a run's value could not be learned: then it is no other value."""
    return key not in run.values and key in run.missing


def _change(key: str, run: RunFacts, others: Sequence[RunFacts]) -> Change | None:
    others = [other for other in others if not _unknown(key, other)]
    if not others or _unknown(key, run):
        return None
    after = run.values.get(key)
    held = Counter(_text(other.values.get(key)) for other in others)
    if _text(after) in held:
        return None
    if key in _CAUSES and not _noticeable(after, [other.values.get(key) for other in others]):
        return None
    most = held.most_common(1)[0][0]
    before: Value | None = next(
        other.values.get(key) for other in others if _text(other.values.get(key)) == most
    )
    return Change(key, before, after, dict(held.most_common()) if len(others) > 1 else {})


def _text(value: Value | None) -> str:
    """A value as what two runs are compared by; "" for none."""
    if value is None:
        return ""
    text = str(value).strip()
    number = as_number(value)
    # Not of hashes, which may look like numbers with an exponent.
    return f"{number:g}" if number is not None and len(text) <= 12 and abs(number) < 1e6 else text


def _noticeable(after: Value | None, before: Iterable[Value | None]) -> bool:
    """What others hold goes up and down a little."""
    known = [as_number(value) or 0.0 for value in before]
    now = as_number(after) or 0.0
    room = max(1.0, 0.01 * max([now, *known])) if now < 1 << 20 else max(64 << 20, 0.05 * max([now, *known]))
    return now > max(known) + room or now < min(known) - room


def _suspect(change: Change, placed: Situation) -> Suspect:
    kind = kind_for(change.key)
    judged = kind.judge(change, placed)
    suspicion, weight = weigh(judged, placed)
    share = _varies(change)
    if share >= 0.5:
        # It is another value in nearly every run: whatever it does, it did it in the others too.
        suspicion, weight = min(suspicion, Suspicion.UNLIKELY), weight * (1 - share)
    elif share > 0:
        weight *= 1 - share / 2
    return Suspect(
        change=change,
        kind=kind.name,
        suspicion=suspicion,
        effect=judged.effect,
        weight=weight,
        sources=judged.sources,
        phases=judged.phases,
        expected_bytes=judged.expected_bytes,
    )


def _varies(change: Change) -> float:
    """How much the others differ among themselves: 0 where all have one value, 1 where no two have the same."""
    total = sum(change.others.values())
    if total < 3 or len(change.others) < 2:
        return 0.0
    return (len(change.others) - 1) / (total - 1)


def weigh(judged: Judged, placed: Situation) -> tuple[Suspicion, float]:
    """The suspicion once memory has been looked at, and the weight among those of one suspicion."""
    if judged.prior is Suspicion.HARMLESS or placed.changed is None:
        return judged.prior, judged.weight
    moved = _moved(judged, placed)
    weight = judged.weight + _closeness(judged, placed)
    if not placed.changed:
        return min(judged.prior, Suspicion.POSSIBLE), judged.weight
    if moved is None:
        return judged.prior, weight
    agrees = any(way != 0 and judged.direction in (0, way) for way in moved)
    against = all(way == 0 or (judged.direction and way == -judged.direction) for way in moved)
    if against:
        return min(judged.prior, Suspicion.UNLIKELY), judged.weight
    if agrees and _peaks_went_the_other_way(judged, placed):
        return min(judged.prior, Suspicion.POSSIBLE), judged.weight  # something else did more than this
    if agrees and judged.prior is Suspicion.LIKELY and (judged.parts or judged.phases):
        strong = judged.direction != 0 or _closeness(judged, placed) > 0
        return (Suspicion.EXPLAINS if strong else Suspicion.LIKELY), weight + 1
    return judged.prior, weight


def _moved(judged: Judged, placed: Situation) -> list[int] | None:
    """Which way the numbers went that the change acts on; None where none of them is known."""
    changes = [placed.change(part) for part in judged.parts]
    known = [change for change in changes if change is not None]
    if not known:
        known = [change for phase in judged.phases if (change := placed.phase_change(phase)) is not None]
    if not known:
        return None
    freer = "free.least" in judged.parts
    ways = [(-1 if freer and part == "free.least" else 1) * _way(change)
            for part, change in zip(_names(judged, changes), known, strict=False)]  # fmt: skip
    # What the phase that failed would have left behind is in none of the parts: they are of the steps before.
    failed = placed.after.text("failed.phase")
    wanted = placed.phase_change(failed) if failed in judged.phases else None
    return [*(way for way in ways if way), _way(wanted)] if wanted else ways


def _peaks_went_the_other_way(judged: Judged, placed: Situation) -> bool:
    """Whether the peaks that the change acts on moved, and all of them against it."""
    ways = {_way(placed.phase_change(phase) or 0) for phase in judged.phases if phase} - {0}
    return judged.direction != 0 and ways == {-judged.direction}


def _names(judged: Judged, changes: Sequence[int | None]) -> list[str]:
    named = [part for part, change in zip(judged.parts, changes, strict=True) if change is not None]
    return named or list(judged.phases)


def _way(change: int) -> int:
    return (change > 0) - (change < 0)


def _closeness(judged: Judged, placed: Situation) -> float:
    """Up to 4 where what was expected is what happened to the part, or to the peak."""
    if not judged.expected_bytes:
        return 0.0
    best = 0.0
    for key in (*judged.parts, *(f"phase.{phase}.peak" for phase in judged.phases), "peak"):
        change = placed.change(key)
        if change and (change > 0) == (judged.expected_bytes > 0):
            best = max(best, min(change / judged.expected_bytes, judged.expected_bytes / change))
    return 4 * best if best > 0.3 else 0.0


def _joined(suspects: Sequence[Suspect]) -> list[Suspect]:
    """Facts of one cause as one suspect: what decides a batch's shape speaks for the shapes that came of it."""
    seen = [each for each in suspects if each.change.key.startswith("batch.")]
    rest = [each for each in suspects if each not in seen]
    if not seen:
        return rest
    seen.sort(key=lambda each: _SEEN.index(each.change.key) if each.change.key in _SEEN else len(_SEEN))
    causes = [each for kind in _SHAPING for each in rest if each.kind == kind]
    first = causes[0] if causes else seen[0]
    others = [each for each in seen if each is not first]
    # What says how many bytes it would make was held against what was recorded.
    judged = [each for each in (first, *others) if each.expected_bytes is not None] or [first, *others]
    strongest = max(judged, key=lambda each: (each.suspicion, each.weight))
    joined = replace(
        first,
        suspicion=strongest.suspicion,
        weight=max(first.weight, strongest.weight),
        effect=first.effect
        if first.expected_bytes is not None or not others
        else _with_shapes(first, strongest),
        expected_bytes=strongest.expected_bytes if first.expected_bytes is None else first.expected_bytes,
        also=(*first.also, *(each.change for each in others)),
    )
    return [joined, *(each for each in rest if each is not first)]


def _with_shapes(first: Suspect, strongest: Suspect) -> str:
    """What the change does, with the numbers of the shapes that came of it."""
    return first.effect if strongest is first else f"{first.effect}; {strongest.effect}"


def _notes(run: RunFacts, others: Sequence[RunFacts], placed: Situation) -> list[str]:
    notes = []
    without = [
        each.label for each in (run, *others) if not any(key.startswith("versions.") for key in each.values)
    ]
    if without:
        listed = ", ".join(without[:3]) + (f" and {len(without) - 3} more" if len(without) > 3 else "")
        notes.append(f"no fingerprint of {listed}: versions, arguments and data cannot be compared")
    unknown = sorted(
        {key for each in (run, *others) for key in each.missing}
        & {key for each in (run, *others) for key in each.values if _is_setting(key)}
    )
    if unknown:
        notes.append(f"not known of each run, and not compared there: {', '.join(unknown)}")
    if placed.changed is None:
        notes.append("no phase was recorded in both: memory cannot be compared")
    elif not placed.changed:
        notes.append("no number of memory differs by more than 1 %")
    alone = sorted(
        key.removeprefix("note.")
        for key in run.values
        if key.startswith("note.") and not any(key in other.values for other in others)
    )
    if alone:
        notes.append(f"noticed in {run.label} alone: {', '.join(alone)} (oomph runs show {run.label})")
    if run.number("failed.request") is not None:
        notes.append(
            f"{run.label} failed in {run.text('failed.phase')}: of that phase, what it had and the request that "
            f"failed are "
            "compared; later phases never ran"
        )
    return notes
