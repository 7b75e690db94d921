"""Composer's launcher (composer/cli/launcher.py)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from oomph.evidence.facts.scan import Printer, Scanner
from oomph.evidence.model import Document, Position, ProcessExit

_CRASHED = re.compile(r"\bRank (\d{1,6}) crashed with exit code (-?\d{1,5})")


def parse(document: Document) -> list[ProcessExit]:
    """The ranks that Composer's launcher saw die; the number is the global rank."""
    return _SCANNER.run(document)


def _read(document: Document, indices: Sequence[int]) -> Iterable[ProcessExit]:
    for index in indices:
        match = _CRASHED.search(document.lines[index].text)
        if match:
            yield ProcessExit(
                code=int(match[2]),
                position=Position(document.index, index),
                quote=document.quote(index),
                rank=int(match[1]),
                launcher="composer",
                time=document.lines[index].time,
            )


PRINTER = Printer(("crashed with exit code",), _read)
_SCANNER = Scanner((PRINTER,))
