"""mpirun (Open MPI, MPICH/Hydra, Intel MPI), horovodrun."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from oomph.evidence.facts.scan import Printer, Scanner
from oomph.evidence.launchers.signals import signal_code
from oomph.evidence.model import Document, Position, ProcessExit

_NOTICED = re.compile(
    r"noticed that process rank (\d{1,6}) with PID (\d{1,10}) on node (\S{1,80}) exited on signal (\d{1,2})"
)
_RUNNING = re.compile(r"(?:RANK (\d{1,6}) )?PID (\d{1,10}) RUNNING AT (\S{1,80})")
_SIGNAL = re.compile(r"KILLED BY SIGNAL: (\d{1,2})")
_NEAR = 4


def parse(document: Document) -> list[ProcessExit]:
    """Exits that an MPI launcher reports with rank and pid."""
    return _SCANNER.run(document)


def _read(document: Document, indices: Sequence[int]) -> Iterable[ProcessExit]:
    for index in indices:
        text = document.lines[index].text
        match = _NOTICED.search(text)
        if match:
            yield _exit(document, index, signal_code(match[4]), match[1], match[2], match[3])
            continue
        match = _RUNNING.search(text)
        if match is None:
            continue
        code = None
        for line in document.lines[index + 1 : index + 1 + _NEAR]:
            signal = _SIGNAL.search(line.text)
            if signal:
                code = signal_code(signal[1])
        yield _exit(document, index, code, match[1], match[2], match[3])


def _exit(
    document: Document, index: int, code: int | None, rank: str | None, pid: str, host: str
) -> ProcessExit:
    return ProcessExit(
        code=code,
        position=Position(document.index, index),
        quote=document.quote(index),
        rank=int(rank) if rank else None,
        pid=int(pid),
        host=host,
        launcher="mpirun",
        time=document.lines[index].time,
    )


PRINTER = Printer(("noticed that process rank", "running at"), _read)
_SCANNER = Scanner((PRINTER,))
