"""What a program of this machine printed, read by the same parsers as what people paste of theirs."""

from __future__ import annotations

from dataclasses import replace

from oomph.evidence.environment.found import Found
from oomph.evidence.environment.parts import Command, Part
from oomph.evidence.model import Line


def parsed(text: str, source: str, command: str, found: Found) -> None:
    """Adds what `text`, the output of `command`, tells. Its quotes have no line numbers: there is no file to look
    into."""
    if not text.strip():
        return
    # Only where there is something to read are the parsers loaded.
    from oomph.evidence.environment.formats import parse_part

    lines = [Line(line, 0) for line in text.splitlines()]
    part = Part(source, lines, command=Command(command, Line(command, 0)), whole=True)
    before = len(found.errors)
    parse_part(part, found)
    found.errors[before:] = [replace(quote, line=0) for quote in found.errors[before:]]
