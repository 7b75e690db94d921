"""nvidia-smi's tables: drivers 375 to 610, MIG devices, Windows, unified memory, repeated by -l, or only a fragment.

A GPU takes two rows: "|   0  NVIDIA A100 ...  On  | 00000000:07:00.0 Off | ..." and
"| N/A   71C  P0   288W / 300W | 48245MiB / 49140MiB | ...". The memory cell reads "Not Supported" on unified memory
and "N/A" under MIG on some boards. Process rows have GI and CI columns from driver 450 on; their memory is "N/A" under
Windows' WDDM. All sizes are MiB.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from oomph.evidence.model import Document, GpuProcess, GpuReading, Line
from oomph.evidence.tables.cells import MAX_CHARS, position, whole
from oomph.evidence.tables.clock import ctime_seconds

_HEADER = re.compile(r"NVIDIA-SMI\s{1,4}[0-9]")
_DRIVER = re.compile(r"(?:Driver|KMD) Version:\s{0,4}([0-9]{2,4}(?:\.[0-9]{1,4}){1,3})")
_CUDA = re.compile(r"CUDA (?:UMD )?Version:\s{0,4}([0-9]{1,3}\.[0-9]{1,3})")
_NAME = re.compile(
    r"\|\s{1,6}([0-9]{1,3})\s{1,4}(\S.{0,60}?)\s{1,30}(?:On|Off|WDDM|TCC|MCDM|N/A)\s{0,6}\|\s{0,6}"
    r"[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f]"
)
_MEMORY = re.compile(r"\|\s{0,30}([0-9]{1,8})\s?MiB\s{0,4}/\s{0,8}([0-9]{1,8})\s?MiB\s{0,12}\|")
_NO_MEMORY = re.compile(r"\|\s{0,30}(?:Not Supported|N/A|Unknown Error|ERR!)\s{0,30}\|")
_MIG = re.compile(
    r"\|\s{1,4}([0-9]{1,3})\s{1,6}([0-9]{1,3})\s{1,6}([0-9]{1,3})\s{1,6}([0-9]{1,3})\s{1,6}\|"
    r"\s{0,30}([0-9]{1,8})MiB\s{0,4}/\s{0,8}([0-9]{1,8})MiB"
)
_PROCESS = re.compile(
    r"\|\s{1,6}([0-9]{1,3})\s{1,8}(?:(?:N/A|[0-9]{1,3})\s{1,6}(?:N/A|[0-9]{1,3})\s{1,16})?([0-9]{1,10})"
    r"\s{1,8}(?:M\+C\+G|C\+G|M\+C|C|G|M)\s{1,6}(\S.{0,120}?)\s{1,70}([0-9]{1,8})?(?:MiB|N/A)\s{0,10}\|"
)

#: A GPU's second row follows its first; logs of other writers may come between.
_NEXT_ROW = 4


@dataclass
class _State:
    """What the rows above say, for one stream of output."""

    section: str = "gpus"
    driver: str | None = None
    cuda: str | None = None
    time: float | None = None
    time_line: int = -100
    gpu: int | None = None
    name: str = ""
    name_line: int = -100


def parse_tables(document: Document) -> tuple[list[GpuReading], list[GpuProcess]]:
    """Readings per GPU (and per MIG device, whose name says so) and processes, in the order of the text."""
    readings: list[GpuReading] = []
    processes: list[GpuProcess] = []
    states: dict[str, _State] = {}
    for index, line in enumerate(document.lines):
        text = line.text
        if len(text) > MAX_CHARS:
            continue
        if "|" not in text:
            _remember_time(states, index, line)
            continue
        state = states.setdefault(line.stream, _State())
        if _heading(state, index, text):
            continue
        if "MiB" in text or "N/A" in text or "Not Supported" in text or "Unknown Error" in text:
            readings.extend(_reading(document, state, index, line))
            processes.extend(_process(document, index, text))
        _name_row(state, index, text)
    return readings, processes


def _remember_time(states: dict[str, _State], index: int, line: Line) -> None:
    if ":" not in line.text:
        return
    time = ctime_seconds(line.text)
    if time is not None:
        state = states.setdefault(line.stream, _State())
        state.time, state.time_line = time, index


def _heading(state: _State, index: int, text: str) -> bool:
    if "NVIDIA-SMI" in text and _HEADER.search(text) is not None:
        driver, cuda = _DRIVER.search(text), _CUDA.search(text)
        state.section, state.gpu = "gpus", None
        state.driver = driver[1] if driver is not None else None
        state.cuda = cuda[1] if cuda is not None else None
        if index - state.time_line > _NEXT_ROW:
            state.time = None
        return True
    if "Processes:" in text:
        state.section, state.gpu = "processes", None
        return True
    if "MIG devices:" in text:
        state.section = "mig"
        return True
    return False


def _name_row(state: _State, index: int, text: str) -> None:
    name = _NAME.search(text)
    if name is not None:
        if state.section != "gpus":  # the next table of a loop, its header lost
            state.section = "gpus"
        state.gpu, state.name, state.name_line = int(name[1]), name[2].strip(), index


def _reading(document: Document, state: _State, index: int, line: Line) -> Iterator[GpuReading]:
    if state.section == "mig":
        mig = _MIG.search(line.text)
        if mig is not None:
            gpu = int(mig[1])
            board = state.name if gpu == state.gpu else ""
            name = f"{board} MIG {mig[4]}".strip()
            yield _make(document, state, index, line, gpu, name, mig[5], mig[6])
        return
    if state.section != "gpus" or state.gpu is None or index - state.name_line > _NEXT_ROW:
        return
    if index == state.name_line or _NAME.search(line.text) is not None:
        return
    memory = _MEMORY.search(line.text)
    if memory is not None:
        yield _make(document, state, index, line, state.gpu, state.name, memory[1], memory[2])
    elif _NO_MEMORY.search(line.text) is not None and _is_second_row(line.text):
        yield _make(document, state, index, line, state.gpu, state.name, "", "")
    else:
        return
    state.name_line = -100  # the third row ("MIG M.") is not another reading


def _is_second_row(text: str) -> bool:
    """Fan, temperature, state and power stand in the first cell: "N/A   39C    P8    4W /  N/A"."""
    first = text.split("|")[1] if text.count("|") > 2 else ""
    return re.search(r"\s(?:[0-9]{1,3}C|N/A|ERR!)\s{1,6}(?:P[0-9]{1,2}|N/A|ERR!)\s", first) is not None


def _make(
    document: Document, state: _State, index: int, line: Line, gpu: int, name: str, used: str, total: str
) -> GpuReading:
    return GpuReading(
        gpu=gpu,
        name=name,
        used=whole(used),
        total=whole(total),
        free=None,
        position=position(document, index),
        quote=document.quote(index),
        time=state.time if state.time is not None else line.time,
        driver=state.driver,
        cuda=state.cuda,
    )


def _process(document: Document, index: int, text: str) -> Iterator[GpuProcess]:
    match = _PROCESS.search(text)
    if match is not None:
        used = whole(match[4]) if match[4] else None
        yield GpuProcess(int(match[1]), int(match[2]), match[3].strip(), used, document.quote(index))
