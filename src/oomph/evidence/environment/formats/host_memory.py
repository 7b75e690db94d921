"""Main memory and limits: /proc/meminfo, `free`, `df` of /dev/shm, `ulimit`, /proc/self/limits, cgroup limits."""

from __future__ import annotations

import re

from oomph.evidence.environment.formats.values import size, suffixed, whole
from oomph.evidence.environment.found import Found
from oomph.evidence.environment.parts import Part
from oomph.evidence.model import Line
from oomph.units import GIB, KIB, MIB, TIB

_MEMINFO = re.compile(r"(MemTotal|MemAvailable|SwapTotal|SwapFree):\s{1,20}(\d{1,15} kB)\s*$")
_MEMINFO_NAMES = {
    "MemTotal": "ram_bytes",
    "MemAvailable": "available_bytes",
    "SwapTotal": "swap_bytes",
    "SwapFree": "swap_free_bytes",
}
_FREE_HEADER = re.compile(r"\s{2,20}total\s{1,12}used\s{1,12}free\b")
_FREE = re.compile(
    r"([^\W\d]\w{1,15})[:：]\s{1,20}(\S{1,20})\s{1,20}(\S{1,20})\s{1,20}(\S{1,20})((?:\s{1,20}\S{1,20}){0,4})\s*$"
)
#: The second row of `free` in the languages that translate it; the first is what is not one of these.
_SWAP = frozenset(
    {
        "Swap",
        "Auslagerungsspeicher",
        "Échange",
        "Partition",
        "Intercambio",
        "交换",
        "交換",
        "スワップ",
        "スワップ領域",
    }
)
_FREE_UNITS = {
    "-b": 1, "--bytes": 1, "-k": KIB, "--kibi": KIB, "-m": MIB, "--mebi": MIB, "-g": GIB, "--gibi": GIB,
    "--tebi": TIB, "--kilo": 10**3, "--mega": 10**6, "--giga": 10**9, "--tera": 10**12,
}  # fmt: skip
_DF = re.compile(
    r"(?:\S{1,80}\s{1,40}){0,2}?(\d[\d.]{0,15}[KMGT]?i?)\s{1,20}(\S{1,16})\s{1,20}(\S{1,16})\s{1,12}\d{1,3}%\s{1,8}/dev/shm/?\s*$"
)
_DF_HEADER = re.compile(
    r"Filesystem\s{1,80}(?:Type\s{1,20})?(Size|1K-blocks|1M-blocks|1G-blocks|1B-blocks|1024-blocks|Inodes)\b"
)
_DF_UNITS = {"1K-blocks": KIB, "1024-blocks": KIB, "1M-blocks": MIB, "1G-blocks": GIB, "1B-blocks": 1}
_SHM_MOUNT = re.compile(
    r"\S{1,40} (?:on )?/dev/shm (?:type )?tmpfs \(?[^)\n]{0,200}?size=(\d{1,12})(k|m|g)(?:[,)]|\s|$)"
)
_ULIMIT = re.compile(
    r"max locked memory\s{1,40}(?:\((kbytes|bytes), -l\)|-l \((kbytes)\))\s{1,20}(unlimited|\d{1,18})"
)
_LIMITS = re.compile(
    r"Max locked memory\s{1,20}(unlimited|\d{1,20})\s{1,30}(?:unlimited|\d{1,20})\s{1,20}bytes"
)
_CGROUP = re.compile(
    r"\S{0,200}/sys/fs/cgroup/\S{0,200}(?:memory\.max|memory\.limit_in_bytes)(?::\s{0,4}|\s{1,4}|=)(max|\d{1,20})\s*$"
)
_CGROUP_FILES = ("memory.max", "memory.limit_in_bytes")
#: cgroup v1 without a limit: the largest multiple of a page below 2**63.
_NO_LIMIT = 2**62
_KIND = "memory of the host"


def parse(part: Part, found: Found) -> None:
    """Fields of HostFacts."""
    unit: int | None = None
    free_unit: int | None = None
    command = part.command.text if part.command is not None else ""
    for line in part.lines:
        text = line.text
        if not text or len(text) > 400:
            continue
        if _meminfo(part, found, line, text):
            continue
        if _FREE_HEADER.match(text):
            free_unit = _free_unit(command, part)
            continue
        row = _FREE.match(text)
        if row is not None:
            if free_unit is not None or row[1] in ("Mem", "Swap"):
                _free(part, found, line, row, free_unit)
            continue
        header = _DF_HEADER.match(text)
        if header is not None:
            unit = _DF_UNITS.get(header[1], 1 if header[1] == "Size" else None)
            continue
        if "dev/shm" in text:
            _shm(part, found, line, text, unit)
        elif "ocked memory" in text or "cgroup" in text:
            _limits(part, found, line, text)
    _bare(part, found, command)


def _meminfo(part: Part, found: Found, line: Line, text: str) -> bool:
    match = _MEMINFO.match(text.strip()) if text[:3].strip()[:1] in "MS" else None
    if match is None:
        return False
    _host(part, found, line, _MEMINFO_NAMES[match[1]], size(match[2]))
    return True


def _host(part: Part, found: Found, line: Line, name: str, value: int | None) -> None:
    if value is not None:
        found.take(part.source, _KIND)
        found.add_host(name, value, part.quote(line))


def _free_unit(command: str, part: Part) -> int:
    """The unit of `free`'s whole numbers: as its option says; KiB without one. A text without a command tells by its
    numbers: no machine has a million GiB, and none that trains a hundred MiB."""
    for word in command.split()[1:]:
        if word in _FREE_UNITS:
            return _FREE_UNITS[word]
    if command:
        return KIB
    rows = [match for line in part.lines if len(line.text) < 200 and (match := _FREE.match(line.text))]
    rows = [row for row in rows if row[1] == "Mem"] or rows
    total = whole(rows[0][2]) if rows else None
    if total is None or not rows[0][2].isdigit():
        return KIB
    if total < 10_000:
        return GIB
    if total < 8_000_000:
        # 8,000,000 KiB are 7.6 GiB; as MiB they would be 7.6 TiB.
        return MIB
    return KIB if total < 20_000_000_000 else 1


def _free(part: Part, found: Found, line: Line, row: re.Match[str], unit: int | None) -> None:
    def amount(cell: str) -> int | None:
        if cell.isdigit():
            return None if unit is None else int(cell) * unit
        return suffixed(cell)

    total, free = amount(row[2]), amount(row[4])
    if row[1] not in _SWAP:
        _host(part, found, line, "ram_bytes", total)
        rest = row[5].split()
        if len(rest) >= 3:
            _host(part, found, line, "available_bytes", amount(rest[2]))
    else:
        _host(part, found, line, "swap_bytes", total)
        _host(part, found, line, "swap_free_bytes", free)


def _shm(part: Part, found: Found, line: Line, text: str, unit: int | None) -> None:
    mount = _SHM_MOUNT.match(text.strip())
    if mount is not None:
        _host(part, found, line, "shm_bytes", suffixed(mount[1] + mount[2]))
        return
    match = _DF.match(text.strip())
    if match is None:
        return

    def amount(cell: str) -> int | None:
        if cell.isdigit() and cell != "0":
            return None if unit is None else int(cell) * unit
        return suffixed(cell)

    _host(part, found, line, "shm_bytes", amount(match[1]))
    _host(part, found, line, "shm_free_bytes", amount(match[3]))


def _limits(part: Part, found: Found, line: Line, text: str) -> None:
    match = _ULIMIT.match(text.strip())
    if match is not None:
        factor = 1 if match[1] == "bytes" else KIB
        _host(part, found, line, "memlock_bytes", -1 if match[3] == "unlimited" else int(match[3]) * factor)
        return
    match = _LIMITS.match(text.strip())
    if match is not None:
        _host(part, found, line, "memlock_bytes", -1 if match[1] == "unlimited" else int(match[1]))
        return
    match = _CGROUP.match(text.strip())
    if match is not None:
        _cgroup(part, found, line, match[1])


def _cgroup(part: Part, found: Found, line: Line, value: str) -> None:
    if value.isdigit() and int(value) < _NO_LIMIT:
        _host(part, found, line, "cgroup_limit_bytes", int(value))
    elif value == "max" or value.isdigit():
        found.take(part.source, _KIND)


def _bare(part: Part, found: Found, command: str) -> None:
    """A number alone, which only the command explains, or the name of the file."""
    lines = [line for line in part.lines if line.text.strip()]
    if not lines or (len(lines) > 2 and part.whole):
        return
    first = lines[0]
    value = first.text.strip()
    if part.program == "ulimit" and "l" in command.partition(" ")[2] and "-a" not in command:
        if value == "unlimited" or (value.isdigit() and len(value) < 16):
            _host(part, found, first, "memlock_bytes", -1 if value == "unlimited" else int(value) * KIB)
    named = command.startswith("cat ") and command.rstrip().endswith(_CGROUP_FILES)
    if (named or part.name.endswith(_CGROUP_FILES)) and re.fullmatch(r"max|\d{1,20}", value):
        _cgroup(part, found, first, value)
