"""Memory columns of the metric tables that jobs print into their log: a header line, then rows of numbers.

    step,loss,cuda_alloc_mb          epoch;step;gpu_mem (MiB)          | step | loss | reserved_gib |
    0,0.9000,2100.0                  0;10;10321                        | 10   | 2.31 | 61.25        |

Cells are separated by commas, semicolons, tabs or bars. A column counts when its name says what it holds and in which
unit (`labels` reads it); a bare "mem" also needs a step, an epoch or a loss beside it. Of several columns that hold
the same figure of one rank (gpu0_mem_mb, gpu1_mem_mb) the first is read: one series is one device's. nvidia-smi's own
CSV is read by `tables`.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from oomph.evidence.model import MemorySample
from oomph.evidence.series.amounts import scaled, scaled_loose
from oomph.evidence.series.labels import label_before
from oomph.evidence.series.scan import MAX_CHARS, Candidate, Scan, thinned
from oomph.units import Amount

_SEPARATORS = (",", ";", "\t", "|")
#: unit in a column's name -> (bytes, bytes of the other reading where the name is used for two)
_UNITS: dict[str, tuple[int, int]] = {
    "b": (1, 1),
    "bytes": (1, 1),
    "kb": (1 << 10, 10**3),
    "kib": (1 << 10, 1 << 10),
    "mb": (1 << 20, 10**6),
    "mib": (1 << 20, 1 << 20),
    "gb": (1 << 30, 10**9),
    "gib": (1 << 30, 1 << 30),
}
#: A unit at the end of a name: letters before it, a separator or nothing behind it.
_UNIT_AT_END = re.compile(
    r"(?:[kmg]i?b|bytes)[)\]]?(?:_[a-z]{1,12}){0,3}[\"'`]?\s{0,20}(?:[,;|\t]|\Z)",
)
_LETTERS_BEFORE = re.compile(r"[a-z][_ (\[./-]{0,2}\Z")
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z][a-z]|[KMG]i?B)")
_WORD = re.compile(r"[a-z]+")
_NAME = re.compile(r"(?:[^\W\d]|[#%*])[\w.()\[\]/%#*:@-]{0,100}(?: [\w.()\[\]/%#*:@-]{1,60}){0,4}")
_PLACE = re.compile(r"(gpu|cuda|xpu|device|rank)[ _:.#\[]?([0-9]{1,6})(?![0-9])")
#: wandb's system metrics: NVML's figure of the device, whatever its name says.
_OF_NVML = re.compile(r"gpu\.[0-9]{1,3}\.memory")
_STEP = re.compile(r"(?:^|[ _/.:])(?:steps?|iters?|iterations?|it|batch|batch_idx)\Z")
_PROGRESS = frozenset({"step", "steps", "iter", "iteration", "it", "epoch", "loss", "batch"})
_DEVICE = frozenset({"gpu", "cuda", "xpu"})
_EVAL = frozenset({"val", "valid", "validation", "eval", "evaluation", "test"})
_PHASE_NAMES = frozenset({"split", "phase", "mode", "stage"})
#: What may stand behind the words that name a figure ("alloc_mb_after_backward").
_MOMENTS = frozenset(
    {"after", "before", "end", "start", "now", "current", "step", "epoch", "train", "max", "peak"}
    | {"forward", "backward", "fwd", "bwd", "gpu", "cuda", "device", "process", "rank"}
    | _EVAL
)
#: A name with one of these is another quantity, or not a size at all.
_NOT_HELD = frozenset(
    {
        "avail",
        "available",
        "avg",
        "bandwidth",
        "bw",
        "capacity",
        "change",
        "count",
        "delta",
        "diff",
        "disk",
        "est",
        "estimate",
        "estimated",
        "expected",
        "free",
        "freed",
        "frag",
        "fragmentation",
        "grad",
        "grads",
        "gradient",
        "increase",
        "io",
        "kv",
        "left",
        "limit",
        "model",
        "num",
        "optimizer",
        "optim",
        "param",
        "params",
        "pct",
        "per",
        "percent",
        "predicted",
        "quota",
        "rate",
        "ratio",
        "read",
        "s",
        "saved",
        "sec",
        "second",
        "size",
        "speed",
        "swap",
        "theoretical",
        "time",
        "total",
        "util",
        "utilization",
        "weight",
        "weights",
        "write",
    }
)
_SMI_FIELDS = ("memory.used", "memory.total", "memory.free", "used_memory", "used_gpu_memory")
_THOUSANDS = re.compile(r"[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]+)?")
_INTEGER = re.compile(r"([0-9]{1,12})(?:\.0{1,12})?")
_RULE = re.compile(r"[\s|:+=-]*")
_FEWEST, _MOST_COLUMNS = 2, 1000
#: A table ends where so many lines of its writer are no rows of it.
_PATIENCE = 400


@dataclass(frozen=True, slots=True)
class _Figure:
    """A memory column; `device` and `rank` where its name says them."""

    column: int
    what: str
    factor: int
    other_factor: int
    device: int | None
    rank: int | None
    context: str


@dataclass(slots=True)
class _Table:
    """A header, and how many lines have passed since its last row."""

    separator: str
    width: int
    figures: tuple[_Figure, ...]
    step: int | None
    rank: int | None
    device: int | None
    phase: int | None
    idle: int = 0


@dataclass(frozen=True, slots=True)
class _Row:
    index: int
    table: _Table
    cells: list[str]


def read(scan: Scan) -> list[MemorySample]:
    """Samples of the rows of all tables, of about `scan.limit` rows where there are more."""
    headers = {
        line.index: table
        for line in scan.unthinned
        if "=" not in line.lower and (table := _header(line)) is not None
    }
    if not headers:
        return []
    found: list[MemorySample] = []
    for row in thinned(list(_rows(scan, headers)), scan.limit):
        found.extend(_samples(scan, row))
    return found


def _header(line: Candidate) -> _Table | None:
    """The table that this line opens. Most lines are none: what is cheap is asked first."""
    lower = line.lower
    at = lower.rfind(": ") + 1
    if not ("," in lower or "|" in lower or ";" in lower or "\t" in lower):
        return None
    unit = _UNIT_AT_END.search(lower, at)
    if unit is None or _LETTERS_BEFORE.search(lower[max(at, unit.start() - 3) : unit.start()]) is None:
        return None
    tail = lower[at:]
    if any(field in tail for field in _SMI_FIELDS):
        return None
    for separator in _SEPARATORS:
        if separator in tail:
            names = _names(_split(line.text, separator))
            table = _table(separator, names) if _FEWEST <= len(names) <= _MOST_COLUMNS else None
            if table is not None:
                return table
    return None


def _split(text: str, separator: str) -> list[str]:
    if '"' in text:
        try:
            cells = next(csv.reader([text], delimiter=separator), [])
        except csv.Error:
            return []
    else:
        cells = (text.strip().strip("|") if separator == "|" else text).split(separator)
    return [cell.strip().strip("\"'`*") for cell in cells]


def _last_token(cell: str) -> str:
    """What stands behind a logger's prefix."""
    return cell[1 + max(cell.rfind(mark) for mark in " \t:]>") :]


def _names(cells: list[str]) -> list[str]:
    """The column names at the end of a line that may begin with a logger's prefix."""
    names: list[str] = []
    for position in range(len(cells) - 1, -1, -1):
        cell = cells[position]
        if _NAME.fullmatch(cell) is None or ": " in cell:
            token = _last_token(cell)
            if _NAME.fullmatch(token) is not None or (position == 0 and not cell):
                names.append(token)
            elif names and position > 0:
                return []
            break
        names.append(cell)
    return names[::-1]


def _table(separator: str, names: list[str]) -> _Table | None:
    words = [set(_WORD.findall(_CAMEL.sub(" ", name).lower())) for name in names]
    progress = any(one & _PROGRESS for one in words)
    figures: list[_Figure] = []
    taken: set[tuple[str, int | None, str]] = set()
    for column, name in enumerate(names):
        figure = _figure(column, name, progress=progress)
        key = (figure.what, figure.rank, figure.context) if figure is not None else None
        if figure is not None and key is not None and key not in taken:
            taken.add(key)
            figures.append(figure)
    if not figures:
        return None
    lower = [name.lower() for name in names]
    memory = {figure.column for figure in figures}
    return _Table(
        separator,
        len(names),
        tuple(figures),
        _step_column(lower, memory),
        _column(lower, ("rank", "global_rank")),
        _column(lower, ("gpu", "device", "cuda", "gpu_id", "device_id", "gpu id")),
        next((column for column, name in enumerate(lower) if name in _PHASE_NAMES), None),
    )


def _column(names: list[str], wanted: tuple[str, ...]) -> int | None:
    return next((names.index(one) for one in wanted if one in names), None)


def _step_column(names: list[str], memory: set[int]) -> int | None:
    for wanted in ("global_step", "step", "iter", "iteration"):
        if wanted in names:
            return names.index(wanted)
    for column, name in enumerate(names):
        if column not in memory and _STEP.search(name) and not set(_WORD.findall(name)) & _NOT_HELD:
            return column
    return None


def _figure(column: int, name: str, *, progress: bool) -> _Figure | None:
    """What a column's name says, if it names a figure and its unit."""
    lower = _CAMEL.sub("_", name).lower().rpartition("system/")[2]  # wandb's group, not the host
    place = _PLACE.search(lower)
    words = _WORD.findall(lower)
    unit = next(
        (word for word in reversed(words) if word in _UNITS and (word != "b" or word == words[-1])), ""
    )
    if not unit or set(words) & _NOT_HELD:
        return None
    words.remove(unit)
    context = "eval" if set(words) & _EVAL else ""
    what = _what(words, progress=progress)
    if what == "allocated" and _OF_NVML.search(lower):
        what = "used"
    if what is None:
        return None
    number = int(place[2]) if place is not None else None
    of_rank = place is not None and place[1] == "rank"
    factor, other = _UNITS[unit]
    return _Figure(
        column, what, factor, other, None if of_rank else number, number if of_rank else None, context
    )


def _what(words: list[str], *, progress: bool) -> str | None:
    """The figure that the words of a name (without its unit) stand for."""
    if words and set(words) <= _DEVICE:
        return "used"
    end = len(words)
    label = label_before("_".join(words), pair=False)
    while label is None and end > 1 and words[end - 1] in _MOMENTS:
        end -= 1
        label = label_before("_".join(words[:end]), pair=False)
    if label is None or label.what in ("max", "pair"):
        return None
    peak = label.peak or "peak" in words or "max" in words
    if label.what == "host_used":
        return None if peak else "host_used"
    if label.what == "used":
        if not (label.of_device or progress):
            return None
        return "max_allocated" if peak else "used"
    return label.what if not peak or label.what.startswith("max_") else f"max_{label.what}"


def _rows(scan: Scan, headers: dict[int, _Table]) -> Iterator[_Row]:
    """The rows behind headers, each writer's own."""
    lines = scan.document.lines
    tables: dict[str, _Table] = {}
    for index in range(min(headers), len(lines)):
        line = lines[index]
        if index in headers:
            tables[line.stream] = headers[index]
            continue
        table = tables.get(line.stream)
        if table is None:
            continue
        cells = _cells(line.text, table)
        if cells is not None:
            table.idle = 0
            yield _Row(index, table, cells)
        else:
            table.idle += 1
            if table.idle > _PATIENCE:
                del tables[line.stream]


def _cells(text: str, table: _Table) -> list[str] | None:
    """The cells of a row; None when the line is none. A logger's prefix before the first cell is dropped."""
    if table.separator not in text or len(text) > MAX_CHARS or _RULE.fullmatch(text):
        return None
    cells = _split(text, table.separator)
    more = len(cells) - table.width
    if more < 0 or more > 2:
        return None
    cells = cells[more:]
    cells[0] = _last_token(cells[0])
    if table.step is not None and cells[table.step] and _INTEGER.fullmatch(cells[table.step]) is None:
        return None
    return cells if any(_value(cells[one.column], one, table) is not None for one in table.figures) else None


def _value(cell: str, figure: _Figure, table: _Table) -> Amount | None:
    if "," in cell:
        if table.separator == ";":  # as spreadsheets write it where the decimal sign is a comma
            cell = cell.replace(",", ".") if cell.count(",") == 1 and "." not in cell else ""
        elif _THOUSANDS.fullmatch(cell) is None:
            return None
    if figure.factor == figure.other_factor:
        return scaled(cell, figure.factor)
    return scaled_loose(cell, figure.factor, figure.other_factor)


def _samples(scan: Scan, row: _Row) -> Iterator[MemorySample]:
    table, cells = row.table, row.cells
    text = scan.document.lines[row.index].text
    line = Candidate(row.index, text, text.lower())
    step, rank, device = (_integer(cells, column) for column in (table.step, table.rank, table.device))
    phase = cells[table.phase].lower() if table.phase is not None else ""
    context = "eval" if set(_WORD.findall(phase)) & _EVAL else "train" if phase.startswith("train") else ""
    for figure in table.figures:
        value = _value(cells[figure.column], figure, table)
        if value is not None:
            sample = scan.sample(
                line,
                figure.what,
                value,
                "csv",
                step=step,
                rank=figure.rank if figure.rank is not None else rank,
                context=figure.context or context,
            )
            yield replace(sample, step=step, device=figure.device if figure.device is not None else device)


def _integer(cells: list[str], column: int | None) -> int | None:
    match = _INTEGER.fullmatch(cells[column]) if column is not None else None
    return int(match[1]) if match is not None else None
