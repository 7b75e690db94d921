"""The answer about growth in a sentence or two."""

from __future__ import annotations

from collections.abc import Mapping

from oomph.diagnose.snapshot.model import Growth
from oomph.memory.categories import Category
from oomph.phases import Phase
from oomph.units import format_bytes

#: So many kinds of what the first step left are named; the rest is "others".
_NAMED = 3
_PASSES = (Phase.FORWARD, Phase.BACKWARD)
_MEANWHILE = {
    Phase.EVAL: "in evaluation",
    Phase.GENERATE: "while generating",
    Phase.SAVE: "while saving",
    Phase.LOAD: "while loading",
    Phase.INIT: "while building",
    Phase.OPTIMIZER: "in the optimizer step",
}


def says(
    growth: Growth, *, failed: bool, left: Mapping[Category, int], peak_phase: Phase, traced: bool = False
) -> str:
    """`failed`: the trace ends with a failed request. `left`: what the first step left for good, by category.
    `peak_phase`: of the peak of the step that stands out. `traced`: oomph traced it, so batches are what the script
    made of them here."""
    parts = [
        _grows(growth, failed)
        if growth.leaks
        else f"Nothing grows over the {growth.steps} steps of the trace."
    ]
    if growth.longest_step is not None:
        parts.append(_stands_out(growth, growth.longest_step, peak_phase, traced))
    if growth.first_step_bytes and not growth.leaks:
        parts.append(
            f"The first step left {format_bytes(growth.first_step_bytes)} for good ({_kinds(left)}); later steps "
            "did not."
        )
    return " ".join(parts)


def _grows(growth: Growth, failed: bool) -> str:
    where = growth.leaks[0].place
    name = f", most of it from {where.function} ({where.file}:{where.line})" if where is not None else ""
    told = (
        f"Memory grows by {format_bytes(growth.bytes_per_step)} per step{name}: blocks that were allocated in one step "
        "after another and never freed."
    )
    if growth.fails_at_step is None:
        return told
    return told + (
        f" Step {growth.fails_at_step} of the trace did not fit."
        if failed
        else f" At this rate step {growth.fails_at_step} of the trace will not fit."
    )


def _stands_out(growth: Growth, step: int, phase: Phase, traced: bool) -> str:
    """A step whose peak is higher. In a pass through the model a longer batch explains it; elsewhere the phase does. Of
    a trace (`traced`) nothing is said of batches: a model's first pass and a hook can need as much."""
    which = "The first step" if step == 0 else f"Step {step}"
    if phase in _MEANWHILE:
        why = _MEANWHILE[phase]
    elif traced:
        why = "allocated within the step"
    elif phase in _PASSES:
        why = "warm-up or a longer batch" if step == 0 else "a longer batch"
    else:
        why = "warm-up, a longer batch or other work" if step == 0 else "a longer batch or other work"
    return (
        f"{which} has a peak of {format_bytes(growth.longest_peak_bytes or 0)} where "
        f"{format_bytes(growth.usual_peak_bytes or 0)} is usual: {why}, not growth."
    )


def _kinds(left: Mapping[Category, int]) -> str:
    known = sorted(left.items(), key=lambda item: -item[1])
    named = [f"{format_bytes(size)} {category}" for category, size in known[:_NAMED]]
    rest = sum(size for _, size in known[_NAMED:])
    return ", ".join([*named, *([f"{format_bytes(rest)} of others"] if rest else [])])
