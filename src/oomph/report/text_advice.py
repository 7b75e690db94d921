"""The part of the text report that says what to do: one change first, and what comes after its result."""

from __future__ import annotations

import re

from oomph.diagnose.model import Advice, Step
from oomph.report.clean import flat
from oomph.report.layout import Style, cells, wrap
from oomph.units import format_bytes

#: A comment of Python or the shell that ends a line.
_COMMENT = re.compile(r"(?:^|\s)\s{0,40}#\s(.*)\Z")


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
    lines += paste_lines(step, "      ", width)
    if step.frees_bytes is not None:
        lines += wrap(f"It frees about {format_bytes(step.frees_bytes)}, by the figures above.", width, "  ")
    if step.predicted is not None:
        lines += wrap(flat(step.predicted.says), width, "  ")
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
    lines += paste_lines(step, " " * (len(first) + 4), width)
    if step.predicted is not None:
        lines += wrap(flat(step.predicted.says), width, " " * len(first))
    for outcome, follows in step.outcomes:
        lines += wrap(f"{flat(outcome)}: {flat(follows)}", width, " " * len(first) + "- ")
    return lines


def paste_lines(step: Step, indent: str, width: int) -> list[str]:
    """The command or code of a step, between blank lines: unwrapped so that it can be pasted, but with comments that
    would not fit above their lines."""
    if not step.paste.strip():
        return []
    lines: list[str] = []
    before = ""
    for line in step.paste.expandtabs(4).strip("\n").split("\n"):
        lines += _with_comment_above(line, width - len(indent), may=not before.endswith("\\"))
        before = line.rstrip()
    return ["", *[f"{indent}{line}" if line.strip() else "" for line in lines], ""]


def _with_comment_above(line: str, room: int, *, may: bool) -> list[str]:
    """The line; one that is too long with its comment on lines of its own. Not where a command goes on (`may`)."""
    match = _COMMENT.search(line) if cells(line) > room else None
    if match is None:
        return [line]
    code, comment = line[: match.start()].rstrip(), match[1]
    if not may or any(code.count(quote) % 2 for quote in ('"', "'")):
        return [line]
    start = " " * (len(code) - len(code.lstrip()))
    return [*wrap(comment, room, f"{start}# ", f"{start}# "), *([code] if code.strip() else [])]
