"""nvidia-smi's table, drivers 375 to 610, on Linux, Windows and WSL: cards, MIG devices, and the list of processes.

A GPU takes two rows, or three where the driver knows MIG; cells are told apart by their bars. The table cuts long names
short. "No running processes found" is a list that is empty; a list without that line and without rows is what a
container sees, whose processes the driver does not name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from oomph.evidence.environment.formats.values import whole
from oomph.evidence.environment.found import Found
from oomph.evidence.environment.model import Card, CardProcess, MigDevice
from oomph.evidence.environment.parts import Part
from oomph.evidence.model import Line
from oomph.units import MIB

_HEADER = re.compile(r"NVIDIA-SMI\s{1,4}[0-9]")
_DRIVER = re.compile(r"(?:Driver|KMD) Version:\s{0,4}([0-9]{2,4}(?:\.[0-9]{1,4}){1,3})")
_CUDA = re.compile(r"CUDA (?:UMD )?Version:\s{0,4}([0-9]{1,3}\.[0-9]{1,3})")
_NAME = re.compile(r"\s{1,6}([0-9]{1,3})\s{1,4}(\S.{0,60}?)\s{1,40}(On|Off|WDDM|TCC|MCDM|N/A|ERR!)\s*$")
_BUS = re.compile(
    r"\s{0,30}([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f])\s{1,10}(On|Off|N/A|ERR!)\s*$"
)
_MEMORY = re.compile(r"\s{0,40}([0-9]{1,8})\s?MiB\s{0,4}/\s{0,8}([0-9]{1,8})\s?MiB\s*$")
_STATE = re.compile(r"(?:^|\s)(?:[0-9]{1,3}C|N/A|ERR!)\s{1,6}(?:P[0-9]{1,2}|N/A|ERR!|Unknown)(?:\s|$)")
_UTILIZATION = re.compile(r"\s{0,20}(?:([0-9]{1,3})\s?%|N/A|ERR!)\s{1,20}(\S[\w. ]{0,20}?)\s*$")
_MIG = re.compile(r"\s{1,4}([0-9]{1,3})\s{1,6}([0-9]{1,3})\s{1,6}([0-9]{1,3})\s{1,6}([0-9]{1,3})\s*$")
_PROCESS = re.compile(
    r"\|\s{1,6}([0-9]{1,3})\s{1,8}(?:(?:N/A|[0-9]{1,3})\s{1,6}(?:N/A|[0-9]{1,3})\s{1,16})?([0-9]{1,10})"
    r"\s{1,8}(M\+C\+G|C\+G|M\+C|C|G|M)\s{1,6}(?:(\S.{0,120}?)\s{1,70})?([0-9]{1,8})?(?:MiB|N/A)\s{0,10}\|"
)
_MODES = {
    "E. Process": "Exclusive_Process",
    "E. Thread": "Exclusive_Thread",
    "Prohibited": "Prohibited",
    "Default": "Default",
}
_LONGEST = 400
_BLANK_LIST = "nvidia-smi lists no process and does not say that none runs, as in a container"


@dataclass
class _Table:
    """One table that is being read, and its cards by index."""

    section: str = "gpus"
    last: int | None = None
    cards: dict[int, Card] = field(default_factory=dict)
    mig: dict[int, list[MigDevice]] = field(default_factory=dict)
    processes: dict[int, list[CardProcess]] = field(default_factory=dict)
    body: bool = False
    none: bool = False
    ended: bool = False


def parse(part: Part, found: Found) -> None:
    """Cards with their processes, the driver and its CUDA version."""
    table = _Table()
    for line in part.lines:
        text = line.text
        if len(text) > _LONGEST or ("|" not in text and "+-" not in text):
            continue
        if table.section != "gpus" and _is_card(text):  # the next table of a loop, its header lost
            _finish(part, found, table)
            table = _Table()
        if "NVIDIA-SMI" in text and _HEADER.search(text) is not None:
            _finish(part, found, table)
            table = _Table()
            _header(part, found, line)
        elif "Processes:" in text:
            table.section, table.body = "processes", False
        elif "MIG devices:" in text:
            table.section, table.body = "mig", False
        elif table.section == "processes":
            _process_row(part, table, line)
        else:
            _card_row(part, found, table, line)
    _finish(part, found, table)


def _is_card(text: str) -> bool:
    """A GPU's first row."""
    cells = text.strip().strip("|").split("|")
    return len(cells) > 1 and _BUS.match(cells[1]) is not None and _NAME.match(cells[0]) is not None


def _header(part: Part, found: Found, line: Line) -> None:
    driver, cuda = _DRIVER.search(line.text), _CUDA.search(line.text)
    found.take(part.source, "nvidia-smi")
    if driver is not None:
        found.add("drivers", driver[1], part.quote(line))
    if cuda is not None:
        found.tell("driver_cuda", cuda[1], part.quote(line))


def _card_row(part: Part, found: Found, table: _Table, line: Line) -> None:
    text = line.text.strip()
    if not text.startswith("|"):
        return
    cells = text.strip("|").split("|")
    if len(cells) < 2:
        if "No devices were found" in text:
            found.told.add("cards")
        return
    name, bus = _NAME.match(cells[0]), _BUS.match(cells[1])
    if name is not None and bus is not None:
        table.last = int(name[1])
        ecc = cells[2].strip() if len(cells) > 2 else ""
        windows = name[3] in ("WDDM", "TCC", "MCDM")
        table.cards[table.last] = Card(
            quote=part.quote(line),
            index=table.last,
            name=name[2].strip(),
            bus_id=bus[1],
            persistence=None if windows or name[3] not in ("On", "Off") else name[3] == "On",
            driver_model=name[3] if windows else "",
            display_active={"On": True, "Off": False}.get(bus[2]),
            ecc=True if whole(ecc) is not None else False if ecc == "Off" else None,
            ecc_uncorrected=whole(ecc),
        )
    elif table.section == "mig":
        _mig_row(table, cells)
    elif table.last is not None:
        _second_row(table, cells)


def _second_row(table: _Table, cells: list[str]) -> None:
    card = table.cards[table.last or 0] if table.last in table.cards else None
    if card is None:
        return
    if _STATE.search(cells[0]) is not None:
        memory = _MEMORY.match(cells[1])
        if memory is not None:
            used, total = int(memory[1]) * MIB, int(memory[2]) * MIB
            card = replace(card, used_bytes=used, total_bytes=total)
        last = _UTILIZATION.match(cells[2]) if len(cells) > 2 else None
        if last is not None:
            card = replace(
                card,
                utilization=int(last[1]) if last[1] else None,
                compute_mode=_MODES.get(last[2], ""),
            )
    elif not cells[0].strip() and len(cells) > 2:
        word = cells[2].strip().rstrip("*")
        if word in ("Enabled", "Disabled"):
            card = replace(card, mig=word == "Enabled")
    table.cards[card.index or 0] = card


def _mig_row(table: _Table, cells: list[str]) -> None:
    row, memory = _MIG.match(cells[0]), _MEMORY.match(cells[1])
    if row is not None and memory is not None:
        table.mig.setdefault(int(row[1]), []).append(MigDevice(total_bytes=int(memory[2]) * MIB))


def _process_row(part: Part, table: _Table, line: Line) -> None:
    text = line.text.strip()
    if "No running processes found" in text:
        table.none = True
        return
    if text.startswith("|==") or "+==" in text:
        table.body = True
        return
    if text.startswith("+-") and table.body:
        table.ended, table.body = True, False
        return
    match = _PROCESS.search(text)
    if match is None:
        return
    used = int(match[5]) * MIB if match[5] else None
    table.processes.setdefault(int(match[1]), []).append(
        CardProcess(int(match[2]), used, (match[4] or "").strip(), match[3], part.quote(line))
    )


def _finish(part: Part, found: Found, table: _Table) -> None:
    if table.cards:
        found.take(part.source, "nvidia-smi")
    whole_list = table.none or table.ended
    blank = table.ended and not table.none and not table.processes
    for index, card in table.cards.items():
        processes = table.processes.get(index)
        if processes is not None:
            card = replace(card, processes=tuple(processes))
        elif whole_list:
            card = replace(card, processes=(), hidden=_BLANK_LIST if blank else "")
        if index in table.mig:
            card = replace(card, mig_devices=tuple(table.mig[index]))
        found.add_card(card)
    for index, processes in table.processes.items():
        if index not in table.cards:
            found.take(part.source, "nvidia-smi")
            quote = processes[0].quote
            found.add_card(Card(quote=quote, index=index, processes=tuple(processes)))
