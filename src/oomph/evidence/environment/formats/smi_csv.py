"""`nvidia-smi --query-gpu=... / --query-compute-apps=... --format=csv`: columns known by their header, or by the
command where a prompt shows it."""

from __future__ import annotations

import re

from oomph.evidence.environment.formats.values import size, whole, yes
from oomph.evidence.environment.found import Found, plain_bus
from oomph.evidence.environment.model import Card, CardProcess
from oomph.evidence.environment.parts import Part
from oomph.evidence.model import Line
from oomph.units import MIB

_COLUMN = re.compile(r"[a-z][a-z0-9_]*(?:\.[a-z0-9_]+){0,5}(?: \[[^\],]{1,8}\])?")
_COMMAND = re.compile(r"--query-(?:gpu|compute-apps|accounted-apps)[= ][\"']?([a-z0-9_.,]{3,600})")
_KNOWN = frozenset(
    [
        "index",
        "uuid",
        "gpu_uuid",
        "name",
        "gpu_name",
        "pci.bus_id",
        "gpu_bus_id",
        "memory.total",
        "memory.used",
        "memory.free",
        "memory.reserved",
        "driver_version",
        "persistence_mode",
        "compute_mode",
        "compute_cap",
        "mig.mode.current",
        "ecc.mode.current",
        "display_active",
        "driver_model.current",
        "retired_pages.pending",
        "utilization.gpu",
        "pid",
        "process_name",
        "used_gpu_memory",
        "used_memory",
        "remapped_rows.pending",
        "remapped_rows.failure",
        "ecc.errors.uncorrected.volatile.total",
        "ecc.errors.uncorrected.aggregate.total",
    ]
)
#: One of these alone is no header of nvidia-smi unless nvidia-smi was called.
_COMMON = frozenset({"index", "uuid", "name", "pid"})
_MODES = {"Exclusive_Process", "Exclusive_Thread", "Prohibited", "Default"}
_CAPABILITY = re.compile(r"(\d{1,2})\.(\d)\Z")


def parse(part: Part, found: Found) -> None:
    """Cards, their processes and the driver."""
    command = _COMMAND.search(part.command.text) if part.command is not None else None
    columns: list[str] = []
    if command is not None and part.command is not None and "noheader" in part.command.text:
        columns = command[1].strip(",").split(",")
    order = 0
    for line in part.lines:
        text = line.text.strip()
        if not text or len(text) > 1_000:
            continue
        header = _columns(text, called=part.program == "nvidia-smi")
        if header:
            columns, order = header, 0
            continue
        cells = [cell.strip() for cell in text.split(",")]
        if not columns or len(cells) < len(columns):
            continue
        if "pid" in columns:
            _app(part, found, line, columns, cells)
        elif len(cells) == len(columns) and _gpu(
            part, found, line, dict(zip(columns, cells, strict=True)), order
        ):
            order += 1


def _columns(text: str, *, called: bool) -> list[str]:
    names = [cell.strip() for cell in text.split(",")]
    if not all(_COLUMN.fullmatch(name) for name in names):
        return []
    plain = [name.partition(" ")[0] for name in names]
    known = [name for name in plain if name in _KNOWN]
    telling = [name for name in known if name not in _COMMON]
    return plain if telling or (called and known) else []


def _memory(cell: str | None) -> int | None:
    """MiB, with the unit or (nounits) without it."""
    if cell is None:
        return None
    number = whole(cell) if cell.isdigit() else None
    return size(cell) if number is None else number * MIB


def _gpu(part: Part, found: Found, line: Line, row: dict[str, str], order: int) -> bool:
    quote = part.quote(line)
    driver = row.get("driver_version", "")
    if driver and re.fullmatch(r"\d{2,4}(?:\.\d{1,4}){1,3}", driver) is None:
        return False
    if driver:
        found.add("drivers", driver, quote)
        found.take(part.source, "nvidia-smi --query-gpu")
    index = whole(row["index"]) if "index" in row else None
    if "index" in row and index is None:
        return False
    uuid = row.get("uuid") or row.get("gpu_uuid") or ""
    bus_id = row.get("pci.bus_id") or row.get("gpu_bus_id") or ""
    capability = _CAPABILITY.match(row.get("compute_cap", ""))
    total, used = _memory(row.get("memory.total")), _memory(row.get("memory.used"))
    if not uuid.startswith(("GPU-", "")) or (
        index is None
        and not uuid
        and not bus_id
        and "name" not in row
        and capability is None
        and total is None
    ):
        return False
    errors = [
        number
        for name in ("ecc.errors.uncorrected.volatile.total", "ecc.errors.uncorrected.aggregate.total")
        if (number := whole(row.get(name))) is not None
    ]
    mode = row.get("compute_mode", "")
    model = row.get("driver_model.current", "")
    pages = yes(row.get("retired_pages.pending"))
    pending = yes(row.get("remapped_rows.pending"))
    card = Card(
        quote=quote,
        # Without an index, a row per GPU in the driver's order.
        index=order if index is None and not uuid and not bus_id else index,
        uuid=uuid,
        bus_id=bus_id,
        name=row.get("name") or row.get("gpu_name") or "",
        capability=(int(capability[1]), int(capability[2])) if capability is not None else None,
        total_bytes=total,
        used_bytes=used,
        free_bytes=_memory(row.get("memory.free")),
        reserved_bytes=_memory(row.get("memory.reserved")),
        utilization=whole(row.get("utilization.gpu")),
        persistence=yes(row.get("persistence_mode")),
        mig=yes(row.get("mig.mode.current")),
        ecc=yes(row.get("ecc.mode.current")),
        ecc_uncorrected=max(errors, default=None),
        remap_pending=pages if pending is None else pending,
        remap_failed=yes(row.get("remapped_rows.failure")),
        compute_mode=mode if mode in _MODES else "",
        display_active=yes(row.get("display_active")),
        driver_model=model if model in ("WDDM", "TCC", "MCDM") else "",
    )
    found.take(part.source, "nvidia-smi --query-gpu")
    found.add_card(card)
    return True


def _app(part: Part, found: Found, line: Line, columns: list[str], cells: list[str]) -> None:
    extra = len(cells) - len(columns)
    if extra > 0 and "process_name" in columns:
        at = columns.index("process_name")
        cells = [*cells[:at], ", ".join(cells[at : at + extra + 1]), *cells[at + extra + 1 :]]
    if len(cells) != len(columns):
        return
    row = dict(zip(columns, cells, strict=True))
    pid = whole(row.get("pid"))
    if pid is None:
        return
    quote = part.quote(line)
    used = _memory(row.get("used_gpu_memory") or row.get("used_memory"))
    process = CardProcess(pid, used, row.get("process_name") or row.get("name") or "", "C", quote)
    uuid = row.get("gpu_uuid") or row.get("uuid") or ""
    bus_id = row.get("gpu_bus_id") or row.get("pci.bus_id") or ""
    found.take(part.source, "nvidia-smi --query-compute-apps")
    held = next(
        (
            card
            for card in found.cards
            if (uuid and card.uuid == uuid) or (bus_id and plain_bus(card.bus_id) == plain_bus(bus_id))
        ),
        None,
    )
    if held is None and not uuid and not bus_id:
        if len(found.cards) != 1:
            return
        held = found.cards[0]
    before = held.processes or () if held is not None else ()
    if any(one.pid == pid for one in before):
        return
    found.add_card(
        Card(
            quote=quote if held is None else held.quote,
            index=None if held is None else held.index,
            uuid=uuid or (held.uuid if held is not None else ""),
            bus_id=bus_id or (held.bus_id if held is not None else ""),
            processes=(*before, process),
        )
    )
