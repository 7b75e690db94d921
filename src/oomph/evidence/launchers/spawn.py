"""torch.multiprocessing.spawn and Lightning's subprocess launcher.

Source: torch/multiprocessing/spawn.py (`ProcessRaisedException`, `ProcessExitedException`; before 1.7 plain
`Exception`); lightning/fabric/strategies/launchers/subprocess_script.py. The index of spawn is the global rank on
one node, and is taken for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from oomph.evidence.facts.scan import Printer, Scanner
from oomph.evidence.launchers.signals import signal_code
from oomph.evidence.model import Document, Position, ProcessExit

_RAISED = re.compile(r"-- Process (\d{1,6}) terminated with the following error:")
_EXITED = re.compile(r"\bprocess (\d{1,6}) terminated with (?:exit code (-?\d{1,10})|signal (\w{1,10}))")
_CHILD = re.compile(
    r"\[rank: (\d{1,6})\] Child process with PID (\d{1,10}) terminated with code (-?\d{1,10})"
)


def parse(document: Document) -> list[ProcessExit]:
    """Exits of spawned processes; one that raised is given exit code 1 (what spawn exits with)."""
    return _SCANNER.run(document)


def _read(document: Document, indices: Sequence[int]) -> Iterable[ProcessExit]:
    for index in indices:
        text = document.lines[index].text
        pid: int | None = None
        code: int | None = 1
        launcher = "spawn"
        match = _RAISED.search(text)
        if match is None:
            match = _EXITED.search(text)
            if match:
                code = int(match[2]) if match[2] else signal_code(match[3])
        if match is None:
            match = _CHILD.search(text)
            if match is None:
                continue
            pid, code, launcher = int(match[2]), int(match[3]), "lightning"
        yield ProcessExit(
            code=code,
            position=Position(document.index, index),
            quote=document.quote(index),
            rank=int(match[1]),
            local_rank=int(match[1]) if launcher == "spawn" else None,
            pid=pid,
            launcher=launcher,
            time=document.lines[index].time,
        )


PRINTER = Printer(("terminated with the following error", "terminated with", "child process with pid"), _read)
_SCANNER = Scanner((PRINTER,))
