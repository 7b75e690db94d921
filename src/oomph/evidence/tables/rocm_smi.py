"""AMD's rocm-smi.

- `--showmeminfo vram`: "GPU[0]  : VRAM Total Memory (B): 68702699520" and "... VRAM Total Used Memory (B): ...", the
  same as JSON ({"card0": {...}}) and as CSV; bytes.
- `--showpids`: rows under "PID  PROCESS NAME  GPU(s)  VRAM USED ...", bytes; GPU(s) is how many, not which: gpu is -1.

The concise table shows only a percentage of VRAM and gives no reading.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from oomph.evidence.model import Document, GpuProcess, GpuReading
from oomph.evidence.tables.cells import MAX_CHARS, position
from oomph.units import Amount

_ITEM = re.compile(
    r"GPU\[([0-9]{1,3})\]\s{0,20}:"
    r"|\"card([0-9]{1,3})\""
    r"|(?<!_)VRAM Total (Used )?Memory \(B\)[\"']?:\s{0,4}[\"']?([0-9]{1,15})(?![0-9])"
    r"|Card [sS]eries[\"']?:\s{1,12}[\"']?([^\"',]{2,60})"
)
_CSV_HEADER = re.compile(r"\s*device,")
_CSV_CARD = re.compile(r"card([0-9]{1,3})")
_PID_ROW = re.compile(
    r"\s*([0-9]{1,10})\s{1,12}(\S.{0,60}?)\s{1,30}([0-9]{1,3})\s{1,12}([0-9]{1,15})\s{1,12}[0-9]{1,15}\s{1,12}\S{1,12}\s*"
)


@dataclass(frozen=True)
class _Card:
    used: int | None = None
    total: int | None = None
    name: str = ""
    line: int = -1


def parse_rocm(document: Document) -> tuple[list[GpuReading], list[GpuProcess]]:
    """A reading per GPU and report, and the processes of --showpids."""
    readings = _text_and_json(document) + _csv(document)
    return sorted(readings, key=lambda reading: reading.position), _pids(document)


def _text_and_json(document: Document) -> list[GpuReading]:
    found: list[GpuReading] = []
    cards: dict[int, _Card] = {}
    for index, line in enumerate(document.lines):
        text = line.text
        if "VRAM" not in text and "Card " not in text:
            continue
        gpu: int | None = None
        for match in _ITEM.finditer(text):
            if match[1] or match[2]:
                gpu = int(match[1] or match[2])
            elif gpu is not None:
                cards[gpu] = _with(document, found, cards.get(gpu, _Card()), gpu, index, match)
    for gpu, card in cards.items():
        if card.line >= 0:
            found.append(_make(document, gpu, card))
    return found


def _with(
    document: Document, found: list[GpuReading], card: _Card, gpu: int, index: int, match: re.Match[str]
) -> _Card:
    """The card with one more item; a size that comes again starts the next report of a loop."""
    if match[5]:
        return replace(card, name=match[5].strip())
    size = int(match[4])
    known = card.used if match[3] else card.total
    if known is not None:
        found.append(_make(document, gpu, card))
        card = _Card(name=card.name)
    if match[3]:
        return replace(card, used=size, line=index)
    return replace(card, total=size, line=index)


def _make(document: Document, gpu: int, card: _Card) -> GpuReading:
    return GpuReading(
        gpu=gpu,
        name=card.name,
        used=None if card.used is None else Amount(card.used),
        total=None if card.total is None else Amount(card.total),
        free=None,
        position=position(document, card.line),
        quote=document.quote(card.line),
        time=document.lines[card.line].time,
    )


def _csv(document: Document) -> list[GpuReading]:
    found: list[GpuReading] = []
    columns: list[str] = []
    for index, line in enumerate(document.lines):
        text = line.text
        if "," not in text or len(text) > MAX_CHARS:
            continue
        cells = [cell.strip() for cell in text.split(",")]
        if _CSV_HEADER.match(text) is not None and "VRAM Total" in text:
            columns = cells
            continue
        card = _CSV_CARD.fullmatch(cells[0]) if columns else None
        if card is None or len(cells) != len(columns):
            continue
        row = dict(zip(columns, cells, strict=True))
        used, total = row.get("VRAM Total Used Memory (B)", ""), row.get("VRAM Total Memory (B)", "")
        values = [int(cell) if re.fullmatch(r"[0-9]{1,15}", cell) else None for cell in (used, total)]
        if values != [None, None]:
            name = row.get("Card series", row.get("Card Series", ""))
            found.append(_make(document, int(card[1]), _Card(values[0], values[1], name, index)))
    return found


def _pids(document: Document) -> list[GpuProcess]:
    found: list[GpuProcess] = []
    inside: set[str] = set()
    for index, line in enumerate(document.lines):
        text = line.text
        if "PROCESS NAME" in text and "VRAM USED" in text:
            inside.add(line.stream)
        elif line.stream in inside:
            if "====" in text:
                inside.discard(line.stream)
                continue
            match = _PID_ROW.fullmatch(text) if len(text) < 300 else None
            if match is not None:
                found.append(
                    GpuProcess(
                        -1, int(match[1]), match[2].strip(), Amount(int(match[4])), document.quote(index)
                    )
                )
    return found
