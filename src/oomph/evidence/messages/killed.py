"""SIGKILL without a named sender (K1): exit codes -9 and 137, "Killed".

The kernel's OOM killer sends it; so do preemption, scancel, watchdogs and people. Alone it proves nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from oomph.evidence.messages.compact import StreamText
from oomph.evidence.model import Failure, Kind, Position

_CODE = re.compile(
    r"failed\(exitcode:-9\)local_rank:(\d{1,6})\(pid:(\d{1,10})\)|exitcode:-9\(pid:(\d{1,10})\)|"
    r"exitswithreturncode=-9|diedwith<Signals\.SIGKILL:9>|terminatedwithsignalSIGKILL|"
    r"(?:exitcode|ExitCode|exit_code|exitstatus|exitedwithcode|exitCode)[\"']?[:=]?(?:137|-9)(?!\d)|"
    r"interruptedbysignal9:SIGKILL"
)
#: One of these stands in every text of `_CODE`: digits alone stand in every log.
_WORDS = (
    "exitcode",
    "ExitCode",
    "exit_code",
    "exitCode",
    "exitstatus",
    "exitedwithcode",
    "returncode=-9",
    "SIGKILL",
)
#: A sentence about the code, not a report of it.
_EXPLAINED = re.compile(
    r"[)\"'`]?,?(?:means|meaning|indicates|isusually|usually|typically|oftenmeans|ifthe|ispossible)"
)
_WORKER = re.compile(r"DataLoaderworker\(pids?\(?s?\)?(\d{1,10})\)iskilledbysignal:Killed")
_SHELL = re.compile(r"line\d{1,6}:(\d{1,10})Killed")
_SRUN = re.compile(r"srun:error:[\w.-]{1,80}:tasks?(\d{1,6}):Killed")
#: What a shell says of a child: bash without job control, bash on macOS, zsh.
_ALONE = re.compile(r"Killed(?:: 9)?(?: {2,}\S.*)?$|(?:zsh: killed|(?:ba)?sh: \d+ Killed) {2,}\S.*$")
_RANK = re.compile(r"rank:(\d{1,6})\(local_rank:\d{1,6}\)exitcode$")


def parse(stream: StreamText) -> Iterable[Failure]:
    """Failures for processes that somebody killed with signal 9."""
    text = stream.text
    if any(word in text for word in _WORDS):
        matches = [match for match in _CODE.finditer(text) if not _EXPLAINED.match(text, match.end())]
        by_pid = {match[3]: _rank_in_table(text, match) for match in matches if match[3]}
        for match in matches:
            detail = {"pid": match[2] or match[3]} if match[2] or match[3] else {}
            # The agent's line has the local rank; the table behind it has the global one.
            rank = by_pid.get(match[2] or match[3])
            if rank is None and match[1]:
                rank = int(match[1])
            yield stream.failure(
                "K1_sigkill", Kind.KILLED, match.start(), match.end(), rank=rank, detail=detail
            )
    if "illed" not in text:
        return
    for match in _WORKER.finditer(text):
        yield stream.failure(
            "K1_sigkill",
            Kind.KILLED,
            match.start(),
            match.end(),
            detail={"pid": match[1], "who": "DataLoader worker"},
        )
    for match in _SHELL.finditer(text):
        yield stream.failure("K1_sigkill", Kind.KILLED, match.start(), match.end(), detail={"pid": match[1]})
    for match in _SRUN.finditer(text):
        yield stream.failure("K1_sigkill", Kind.KILLED, match.start(), match.end(), rank=int(match[1]))
    for index in stream.indices:
        line = stream.document.lines[index]
        if "illed" in line.text and _ALONE.match(line.text.strip()):
            yield Failure(
                format="K1_sigkill",
                kind=Kind.KILLED,
                vendor="cuda",
                position=stream_position(stream, index),
                end=stream_position(stream, index),
                quote=stream.document.quote(index),
                rank=line.rank,
                stream=line.stream,
            )


def _rank_in_table(text: str, match: re.Match[str]) -> int | None:
    """The global rank that stands before an exit code in torchelastic's table."""
    table = _RANK.search(text, max(0, match.start() - 60), match.start() + len("exitcode"))
    return int(table[1]) if table else None


def stream_position(stream: StreamText, index: int) -> Position:
    """The Position of a line index of the stream's document."""
    return Position(stream.document.index, index)
