"""Who kills for host memory and says so: HTCondor, LSF, PBS, Grid Engine, Slurm's accounting (K6), systemd-oomd,
earlyoom and macOS (K7), and Windows' refusal to commit memory (P4).

The texts are those of the tools' own logs and manuals; white space is left out (see compact.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from oomph.evidence.messages.compact import StreamText
from oomph.evidence.messages.pieces import is_raised, mention
from oomph.evidence.model import Failure, Kind

_SCHEDULER = (
    ("HTCondor", "goneover", re.compile(r"[Jj]obhasgoneover(?:cgroup)?memorylimitof\d{1,12}megabytes")),
    ("LSF", "MEMLIMIT", re.compile(r"TERM_MEMLIMIT")),
    (
        "PBS",
        "exceeded",
        re.compile(
            r"PBS:jobkilled:(?:p?v?mem)\d{1,15}[kmg]?bexceededlimit|Cgroupp?v?memlimitexceeded", re.IGNORECASE
        ),
    ),
    ("Grid Engine", "hardlimit", re.compile(r"exceedsjobhardlimit[\"']?[hs]_(?:vmem|rss)", re.IGNORECASE)),
    ("Slurm", "OUT_OF_ME", re.compile(r"(?<!_)OUT_OF_ME(?:MORY(?![A-Z_])|\+)")),
)
_DAEMON = (
    (
        "systemd-oomd",
        "systemd-oomd",
        re.compile(r"systemd-oomdkilled\d{1,6}process|systemd-oomd\[\d{1,10}\]:Killed/"),
    ),
    (
        "earlyoom",
        "toprocess",
        re.compile(r"sendingSIG(?:KILL|TERM)toprocess(\d{1,10})uid\d{1,10}.{0,60}?badness"),
    ),
    ("macOS", "memorystatus", re.compile(r"memorystatus:killing\w{0,40}pid(\d{1,10})")),
)
#: Before the state's name: "State:", or a row of sacct, which begins with the job's number.
_JOB_STATE = re.compile(r"[Ss]tate[:=]$|^\d{2,12}(?:[_.+]\w{1,20}|\D)")
_COMMIT = re.compile(r"Thepagingfileistoosmallforthisoperationtocomplete|\[WinError1455\]|\(oserror1455\)")


def parse(stream: StreamText) -> Iterable[Failure]:
    """Failures for which somebody else than the kernel named host memory as the reason."""
    text = stream.text
    for sender, literal, pattern in _SCHEDULER:
        if literal in text:
            yield from _told(stream, pattern, "K6_scheduler_memory", sender)
    for sender, literal, pattern in _DAEMON:
        if literal in text:
            yield from _told(stream, pattern, "K7_oom_daemon", sender)
    if "1455" in text or "pagingfile" in text:
        yield from _windows(stream)


def _told(stream: StreamText, pattern: re.Pattern[str], format: str, sender: str) -> Iterable[Failure]:
    last_line = -2
    for match in pattern.finditer(stream.text):
        line = stream.line_index(match.start())
        if sender == "Slurm" and not _JOB_STATE.search(stream.before(match.start())):
            continue  # a state's name in other words
        if mention(stream.before(match.start())) == "prose" or line <= last_line + 1:
            continue  # the daemon's second line about one kill
        last_line = line
        pid = {"pid": match[1]} if match.lastindex else {}
        yield stream.failure(
            format, Kind.HOST_OOM, match.start(), match.end(), detail={"sender": sender, **pid}
        )


def _windows(stream: StreamText) -> Iterable[Failure]:
    last = -1000
    for match in _COMMIT.finditer(stream.text):
        if match.start() - last < 200:
            continue  # message and code of one error
        last = match.start()
        yield stream.failure(
            "P4_windows_commit",
            Kind.HOST_OOM,
            match.start(),
            match.end(),
            raised=is_raised(stream.before(match.start())),
            detail={"allocator": "cpu"},
        )
