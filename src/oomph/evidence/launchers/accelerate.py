"""subprocess.CalledProcessError: what `accelerate launch` and torch.distributed.launch raise for their child.

Texts from CPython's subprocess.py: "returned non-zero exit status N." and "died with <Signals.SIGKILL: 9>." (or
"died with unknown signal N.").
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from oomph.evidence.facts.scan import Printer, Scanner
from oomph.evidence.launchers.signals import exit_code
from oomph.evidence.model import Document, Position, ProcessExit

_STATUS = re.compile(r"returned non-zero exit status (-?\d{1,10})")
_SIGNAL = re.compile(r"died with (?:<Signals\.\w{1,12}: (\d{1,3})>|unknown signal (\d{1,3}))")
_LOCAL = re.compile(r"--local[_-]rank(?:=|['\"]?,? ['\"]?)(\d{1,6})")
_NEAR = 60


def parse(document: Document) -> list[ProcessExit]:
    """Exits that a parent Python process reports about the command it ran."""
    return _SCANNER.run(document)


def _read(document: Document, indices: Sequence[int]) -> Iterable[ProcessExit]:
    for index in indices:
        text = document.lines[index].text
        match = _STATUS.search(text)
        if match:
            code = exit_code(match[1])
        else:
            match = _SIGNAL.search(text)
            if match is None:
                continue
            code = -int(match[1] or match[2])
        ranks = _LOCAL.findall(text)
        yield ProcessExit(
            code=code,
            position=Position(document.index, index),
            quote=document.quote(index),
            local_rank=int(ranks[-1]) if ranks else None,
            launcher="torchrun" if ranks else _launcher(document, index),
            time=document.lines[index].time,
        )


def _launcher(document: Document, index: int) -> str:
    """Accelerate when its command's frames stand just above; else only a Python parent."""
    for line in document.lines[max(0, index - _NEAR) : index + 1]:
        if "accelerate" in line.text and ("launch" in line.text or "commands" in line.text):
            return "accelerate"
    return "subprocess"


PRINTER = Printer(("returned non-zero exit status", "died with <signals.", "died with unknown signal"), _read)
_SCANNER = Scanner((PRINTER,))
