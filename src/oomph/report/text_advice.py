"""The part of the text report that says what to do: one change first, and what comes after its result."""

from __future__ import annotations

from oomph.diagnose.model import Advice, Step
from oomph.report.clean import flat
from oomph.report.layout import Style, wrap
from oomph.units import format_bytes


def advice_sections(advice: Advice, width: int, style: Style) -> list[tuple[str, list[str]]]:
    """Headings and lines: first change, then, do not, collect."""
    return [
        ("First change", _first(advice.first, width, style)),
        ("Then", _then(advice, width)),
        ("Do not", [line for text in advice.avoid for line in wrap(flat(text), width, "  - ")]),
        ("Collect", [line for step in advice.collect for line in _step(step, width, "  - ")]),
    ]


def _first(step: Step, width: int, style: Style) -> list[str]:
    lines = [style(line, "bold") for line in wrap(flat(step.title), width, "  ")]
    if flat(step.text) != flat(step.title):
        lines += wrap(step.text, width, "  ")
    lines += paste_lines(step, "      ")
    if step.frees_bytes is not None:
        lines += wrap(f"It frees about {format_bytes(step.frees_bytes)}, by the figures above.", width, "  ")
    return lines


def _then(advice: Advice, width: int) -> list[str]:
    lines: list[str] = []
    for outcome, follows in advice.first.outcomes:
        lines += wrap(f"{flat(outcome)}: {flat(follows)}", width, "  - ")
    if advice.then:
        lines += wrap("Next, one at a time and only while it still fails:", width, "  ") if lines else []
        for number, step in enumerate(advice.then, 2):
            lines += _step(step, width, f"  {number}. ")
    return lines


def _step(step: Step, width: int, first: str) -> list[str]:
    title, text = flat(step.title).rstrip("."), flat(step.text)
    told = title if not text or text.rstrip(".") == title else f"{title}: {text}"
    lines = wrap(told, width, first)
    lines += paste_lines(step, " " * (len(first) + 4))
    for outcome, follows in step.outcomes:
        lines += wrap(f"{flat(outcome)}: {flat(follows)}", width, " " * len(first) + "- ")
    return lines


def paste_lines(step: Step, indent: str) -> list[str]:
    """The command or code of a step, unwrapped so that it can be pasted, between blank lines."""
    if not step.paste.strip():
        return []
    lines = step.paste.expandtabs(4).strip("\n").split("\n")
    return ["", *[f"{indent}{line}" if line.strip() else "" for line in lines], ""]
