"""Where a real run and a trace of it part, in words."""

from __future__ import annotations

from oomph.diagnose.snapshot.compare_model import SnapshotComparison
from oomph.diagnose.trace.diverge import Act, Divergence
from oomph.memory.stacks import Frame
from oomph.report.layout import wrap
from oomph.report.snapshot.places import place_in_sentence, place_of
from oomph.report.snapshot.text_failure import stack_lines
from oomph.report.words import plural
from oomph.units import format_bytes

TITLE = "Real run and trace, event by event"


def divergence_lines(comparison: SnapshotComparison, width: int, *, stacks: bool = False) -> list[str]:
    """The answer, what each side does where they part, and how much differs in all; [] without a trace."""
    divergence = comparison.divergence
    if divergence is None:
        return []
    lines = wrap(divergence_words(divergence), width, "  ")
    if divergence.same:
        return lines
    for name, act in (("the real run", divergence.real), ("the trace", divergence.traced)):
        if act is not None:
            lines += wrap(f"{name} {act_words(act)}", width, "  - ")
            lines += stack_lines(act.frames, width, "      ") if stacks else []
    return [*lines, *wrap(count_words(divergence), width, "  ")]


def divergence_words(divergence: Divergence) -> str:
    """One sentence: how far they are the same."""
    real, traced = divergence.events_real, divergence.events_traced
    if divergence.same:
        return f"All {real:,} requests and frees are the same, in the same order."
    return (
        f"The first {divergence.equal_before:,} requests and frees are the same, of {real:,} of the real run and "
        f"{traced:,} of the trace. Then they part:"
    )


def act_words(act: Act) -> str:
    """What one side does: "asks for 2.00 MiB at train.py:30 (step)"."""
    if act.what == "end":
        return "ends"
    where = _at(act.frames)
    if act.what == "alloc":
        return f"asks for {format_bytes(act.size_bytes)} (event {act.position:,}){where}"
    by = _at(act.requested_by)
    asked = f", asked for{by}" if by else ""
    return f"gives back {format_bytes(act.size_bytes)} (event {act.position:,}){where}{asked}"


def count_words(divergence: Divergence) -> str:
    """How much differs in all, at most."""
    if not divergence.complete:
        return f"At least {plural(divergence.only_real + divergence.only_traced, 'event')} differ."
    told = [
        f"{plural(divergence.only_real, 'event')} only the real run has",
        f"{plural(divergence.only_traced, 'event')} only the trace has",
    ]
    if divergence.other_block:
        told.append(f"{plural(divergence.other_block, 'free')} of another block of the same size")
    return f"In all, at most: {', '.join(told)}."


def _at(frames: tuple[Frame, ...]) -> str:
    frame = place_of(frames)
    return "" if frame is None else f" at {place_in_sentence(frame)}"
