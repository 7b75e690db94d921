"""Which processes live: `ps`, `kill` and `ls /proc/PID` where somebody looked for one that nvidia-smi names."""

from __future__ import annotations

import re

from oomph.evidence.environment.found import Found
from oomph.evidence.environment.parts import Part

_HEADER = re.compile(r"\s{0,12}(?:UID|USER)?\s{0,20}PID\s")
_AUX = re.compile(r"\s{0,4}[\w.+-]{1,40}\s{1,20}(\d{1,10})\s")
_PID_FIRST = re.compile(r"\s{0,12}(\d{1,10})\s{1,8}\S")
_GONE = re.compile(r"(?:kill: )?\(?(\d{2,10})\)?\)? ?-? ?:? ?No such process")
_ASKED = re.compile(r"(?:-[pqo]{1,2}|--pid)[ =]?(\d{1,10}(?:,\d{1,10})*)")
_PROC = re.compile(r"/proc/(\d{2,10})/?[^\n]{0,40}: No such file or directory")
_KIND = "a list of processes"


def parse(part: Part, found: Found) -> None:
    """found.alive: by process id, whether it lives."""
    command = part.command.text if part.command is not None else ""
    asked = set()
    if part.program == "ps":
        for match in _ASKED.finditer(command):
            asked |= {int(pid) for pid in match[1].split(",")[:100]}
    header = listed = False
    pattern = _AUX
    seen: set[int] = set()
    for line in part.lines:
        text = line.text
        if len(text) > 4_000:
            continue
        gone = _GONE.search(text) or _PROC.search(text)
        if gone is not None:
            found.alive[int(gone[1])] = False
            found.take(part.source, _KIND)
            continue
        if _HEADER.match(text) is not None and ("CMD" in text or "COMMAND" in text or "STAT" in text):
            header, listed = True, True
            first = "USER" not in text and "UID" not in text
            pattern = _PID_FIRST if first else _AUX
            continue
        if not header:
            continue
        row = pattern.match(text)
        if row is None:
            header = bool(text.strip()) and header
            continue
        pid = int(row[1])
        seen.add(pid)
        dead = "<defunct>" in text or re.search(r"\sZ[+sl<N]{0,3}\s", text) is not None
        if len(seen) < 20_000:
            found.alive[pid] = not dead
    if listed:
        found.take(part.source, _KIND)
        for pid in asked - seen:
            found.alive[pid] = False
        # `ps aux` from the first process on, nothing filtered: whoever is not in it does not live.
        if 1 in seen and "|" not in command and re.search(r"\b(?:aux\w*|-ef\w*|-e|-A|ax\w*)\b", command):
            found.pids_whole = True
