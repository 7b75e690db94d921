"""The words and rows that all renderers of a search for what fits share."""

from __future__ import annotations

from collections.abc import Sequence

from oomph.remedy.choice import Choice
from oomph.remedy.costs import FORMULAS, Cost
from oomph.remedy.search import FitResult
from oomph.remedy.starving import shortage
from oomph.report.plan.job_words import tidy
from oomph.report.plan.words import Rows, phase_of
from oomph.units import format_bytes

#: Fidelity from which results are other ones (see `remedy.choice`).
_OTHER = 10
_MINUTE = 120


def exit_code(found: FitResult) -> int:
    """0: it fits, or something makes it fit, or no capacity is known; 1: nothing that is allowed does; 2: it cannot be
    predicted."""
    if not found.base.ranks:
        return 2
    return 0 if found.fits or found.room_bytes is None or any(map(_is_sure, found.choices)) else 1


def _is_sure(choice: Choice) -> bool:
    """Whether its upper end fits, and the play through the allocator, where there was one, does not leave it open."""
    return choice.plan is None or choice.plan.fits is True


def headline(found: FitResult) -> str:
    """One sentence: what makes it fit, or that nothing does."""
    if found.room_bytes is None:
        return "Nothing says what the card has: give --gpu or --capacity"
    room = format_bytes(found.room_bytes)
    if found.fits:
        return f"It fits in {room} as it is"
    where = f"It does not fit in {room} {phase_of(found.failing[0])}"
    if not found.choices:
        near = found.nearest
        closest = "" if near is None else f"; {listed(near)} comes nearest, with {size(near)}"
        return f"{where}, and nothing that is allowed makes it fit{closest}"
    does = "makes it fit" if _is_sure(found.choices[0]) else "may make it fit"
    return f"{where}; {listed(found.choices[0])} {does}, with {size(found.choices[0])}"


def listed(choice: Choice) -> str:
    """The changes: "a + b + c"."""
    return " + ".join(change.title for change in choice.changes)


def size(choice: Choice) -> str:
    """The prediction and its upper end."""
    first, last = format_bytes(choice.peak_bytes), format_bytes(choice.upper_bytes)
    return first if first == last else f"{first}, at most {last}"


def slower(choice: Choice, before: Cost | None) -> str:
    """Time per token against the job as it was: "1.31 x"."""
    if before is None or not before.per_token:
        return ""
    return f"{choice.cost.per_token / before.per_token:.2f} x"


def fidelity(choice: Choice) -> str:
    """What the results are, against those of the job as it was."""
    if choice.fidelity == 0:
        return "the same"
    return "close" if choice.fidelity < _OTHER else "others"


def choice_rows(found: FitResult) -> Rows:
    """Heads and one row for each choice."""
    rows: Rows = [("", "at most", "time", "results", "change")]
    for number, choice in enumerate(found.choices, 1):
        rows.append(
            (
                f"{number}.",
                format_bytes(choice.upper_bytes),
                slower(choice, found.base_cost),
                fidelity(choice),
                f"{listed(choice)}{_doubt(choice)}",
            )
        )
    return rows


def _doubt(choice: Choice) -> str:
    """What the play through the allocator left open, and what the host has to have."""
    plan = choice.plan
    if plan is None:
        return ""
    told = [] if plan.fits else ["played through the allocator, it may not fit"]
    moved = any(change.axis.startswith("offload") for change in choice.changes)
    if moved and plan.host is not None and plan.host.train_bytes:
        told.append(f"{format_bytes(plan.host.train_bytes)} of host RAM")
    return f" ({'; '.join(told)})" if told else ""


def recipe(steps_of_choice: Sequence[tuple[str, tuple[str, ...], str]]) -> list[str]:
    """Lines to write, with what to look at afterwards."""
    lines: list[str] = []
    for title, written, check in steps_of_choice:
        lines += [f"# {title}", *written, f"# check: {check}", ""]
    return lines[:-1]


def steps(found: FitResult, choice: Choice) -> list[tuple[str, tuple[str, ...], str]]:
    """For each change: its title, what to write, and how to see that it took effect; each on the job that the changes
    before it made."""
    made = []
    job = found.base.job
    for change in choice.changes:
        made.append((change.title, change.lines(job), change.verify(job)))
        job = change.apply(job)
    return made


def time_rows(found: FitResult) -> Rows:
    """Heads and the parts of a step's time, before and after the first choice, with their formulas."""
    before = found.base_cost
    after = found.choices[0].cost if found.choices else None
    if before is None:
        return []
    was, now = dict(before.parts), dict(after.parts) if after is not None else {}
    heads = (
        ("before", "first choice", "part of a step") if after is not None else ("before", "part of a step")
    )
    rows: Rows = [heads]
    for name in dict.fromkeys((*was, *now)):
        told = f"{name}: {FORMULAS[name]}"
        cells = [seconds(was.get(name, 0.0))]
        if after is not None:
            cells.append(seconds(now.get(name, 0.0)))
        rows.append((*cells, told))
    total = [seconds(before.seconds), *([seconds(after.seconds)] if after is not None else [])]
    rows.append((*total, "in all: an estimate for comparing, not a measurement"))
    return rows


def seconds(value: float) -> str:
    """As people say it: 1.24 s, 38 ms, 3.1 min; "-" for nothing."""
    if value <= 0:
        return "-"
    if value >= _MINUTE:
        return f"{value / 60:.1f} min"
    return f"{value:.2f} s" if value >= 1 else f"{value * 1000:.1f} ms"


def not_allowed(found: FitResult) -> list[str]:
    """What would have to be allowed, one sentence for each word of --allow."""
    by_word: dict[str, list[str]] = {}
    for change in found.not_allowed:
        by_word.setdefault(change.needs, []).append(change.title)
    return [f"--allow {word}: {'; '.join(titles)}" for word, titles in by_word.items()]


def starving(choice: Choice) -> str:
    """What a choice that fits the card lacks on the machine; "" for nothing."""
    lacks = None if choice.plan is None else shortage(choice.plan)
    if lacks is None:
        return ""
    when = "while loading" if lacks.loading else "while training"
    return (
        f"{listed(choice)} would fit the card, with {size(choice)}, and needs {format_bytes(lacks.needs)} of host RAM "
        f"{when}, where the machine has {format_bytes(lacks.has)}."
    )


def notes(found: FitResult) -> list[str]:
    """What the search rests on."""
    told = [each for each in map(starving, found.starving) if each]
    if any(0 < each.fidelity < _OTHER for each in found.choices):
        told.append("Results that are close: the same mathematics, with another rounding.")
    if found.tried:
        often = f"{found.tried:,} combinations were predicted"
        told.append(f"{often}." if found.complete else f"{often}; there are more.")
    before = found.base_cost
    if before is not None:
        told += [f"Time: {tidy(each)}." for each in before.assumptions]
    return told
