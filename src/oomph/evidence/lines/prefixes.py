"""Launcher and collector prefixes: who wrote a line, and when.

Fixed prefixes are recognised anywhere; those that look like ordinary text ("0: ", "worker-1: ") only when the
document shows that they are prefixes: they stand before a traceback's header and before its first frame.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from oomph.evidence.lines.clock import parse_clock
from oomph.evidence.lines.writers import counts_up, writer_of

_RANK = re.compile(r"\[rank ?(\d{1,6})\]: ?")
_TORCHRUN_TEE = re.compile(r"\[([A-Za-z_][\w-]{0,40}?)(\d{1,5})\]: ?")
_MPI = re.compile(r"\[\d+,(?:mpirank:)?(\d{1,6})(?:,[\w.-]{1,60})?\]<std(?:out|err)>: ?")
_RAY = re.compile(r"\(([A-Za-z_][\w.\-:]{0,80}?)?,? ?pid=(\d{1,10})(?:, ip=[\w.:]{1,60})?\) ?")
_CRI = re.compile(r"(\d{4}-\d\d-\d\dT[\d:.]{8,20}(?:Z|[+-]\d\d:\d\d)) std(?:out|err) [FP] ?")
_ISO = re.compile(r"(\d{4}-\d\d-\d\dT[\d:]{8}(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)) ")
_POD = re.compile(r"\[(pod/[\w./-]{1,200})\] ?")
_COMPOSE = re.compile(r"([A-Za-z][\w.-]{0,60}-\d{1,4}) +\| ?")
_SRUN = re.compile(r" {0,4}(\d{1,5}):(?!\d\d:\d\d) ?")
#: What `cat -n` and `grep -n` write before a line.
_NUMBER = re.compile(r" {0,6}(\d{1,9})(?:\t|[:-] ?)")
_NUMBERED = re.compile(r" {0,6}\d{1,9}(?:\t|:) ?")
_DIFF_FRAME = re.compile(r'\+ {2}File "')
_HEADER = "Traceback (most recent call last)"
#: Every line is held against every learned prefix; a job has a few kinds of writers, whatever its number of ranks.
_MOST_LEARNED = 32
_FRAME = re.compile(r'\s*(?:File "|[│|]|\S+:\d+ in )')
_INLINE_RANK = re.compile(r"\[rank ?(\d{1,6})\]|\| ?rank ?(\d{1,6}) ?\||\[Rank (\d{1,6})\]")


@dataclass(frozen=True)
class Prefixes:
    """What the document's lines start with. `learned` are patterns found before tracebacks."""

    srun: bool = False
    learned: tuple[re.Pattern[str], ...] = ()
    numbered: bool = False


@dataclass
class Stripped:
    """A line without its prefixes."""

    text: str
    stream: str = ""
    rank: int | None = None
    time: float | None = None


def learn(lines: Sequence[str]) -> Prefixes:
    """Finds the prefixes that only the document can prove. `lines` are cleaned of colours and controls."""
    srun = False
    patterns: dict[str, re.Pattern[str]] = {}
    numbered = 0
    filled = 0
    counted = False
    for index, text in enumerate(lines):
        if text and index < 4000:
            filled += 1
            if text[:6].lstrip()[:1].isdigit() and _SRUN.match(text):
                numbered += 1
        at = text.find(_HEADER)
        if at <= 0 or at > 200:
            continue
        prefix = text[:at]
        if _NUMBERED.fullmatch(prefix) and counts_up(_numbers(lines[index : index + 8])):
            counted = True
            continue
        if prefix == "+" and index + 1 < len(lines) and _DIFF_FRAME.match(lines[index + 1]):
            patterns["+"] = re.compile(r"\+")
            continue
        rest = strip_fixed(prefix).text if prefix.strip() else ""
        head = rest.rstrip(" ╭─+-┌") if rest.strip() else ""
        if not head:
            continue
        if re.fullmatch(r" {0,4}\d{1,5}:(?: .*)?", prefix):
            srun = srun or _confirms(lines, index, re.compile(r" {0,4}\d{1,5}: ?"))
            continue
        if len(patterns) >= _MOST_LEARNED:
            continue
        for candidate in (head, prefix.rstrip()):  # a rich box's border is no prefix, a logger's last dash is
            pattern = _generalise(candidate)
            if pattern.pattern in patterns:
                break
            if _confirms(lines, index, pattern):
                patterns[pattern.pattern] = pattern
                break
    if filled >= 4 and numbered >= 0.6 * filled:
        srun = True
    return Prefixes(srun=srun and not counted, learned=tuple(patterns.values()), numbered=counted)


def _numbers(lines: Sequence[str]) -> list[int]:
    """The numbers at the beginning of consecutive lines, up to the first line without one."""
    found: list[int] = []
    for text in lines:
        match = _NUMBER.match(text)
        if match is None:
            break
        found.append(int(match[1]))
    return found


def _confirms(lines: Sequence[str], index: int, pattern: re.Pattern[str]) -> bool:
    """True when a frame of the traceback behind `index` carries the same prefix."""
    for text in lines[index + 1 : index + 6]:
        match = pattern.match(text) or pattern.match(strip_fixed(text).text)
        if match is None:
            continue
        rest = strip_fixed(text[match.end() :]).text if match.re is pattern else ""
        if _FRAME.match(rest) or not rest.strip():
            return True
    return False


def _generalise(prefix: str) -> re.Pattern[str]:
    """The prefix as a pattern in which every run of digits may differ."""
    parts = re.split(r"(\d+)", prefix)
    body = "".join(r"\d+" if part.isdigit() else re.escape(part) for part in parts)
    return re.compile(body + " ?")


def strip_fixed(text: str) -> Stripped:
    """Strips the prefixes that are recognised without knowing the document."""
    out = Stripped(text)
    for _ in range(6):
        first = out.text[:1]
        if first == "[":
            changed = _bracket(out)
        elif first == "(":
            changed = _ray(out)
        elif first.isdigit():
            changed = _timestamp(out)
        elif first.isalpha():
            changed = _compose(out)
        else:
            changed = False
        if not changed:
            break
    return out


def strip(text: str, prefixes: Prefixes) -> Stripped:
    """The line without any known prefix, with the writer's stream, rank and time."""
    out = Stripped(text)
    if prefixes.numbered and (match := _NUMBER.match(text)) is not None:
        out.text = text[match.end() :]
    for _ in range(3):
        before = out.text
        if prefixes.srun:
            match = _SRUN.match(out.text)
            if match:
                task = int(match[1])
                _writer(out, _name("task", task), task)
                out.text = out.text[match.end() :]
        for pattern in prefixes.learned:
            match = pattern.match(out.text)
            if match:
                out.stream = out.stream or writer_of(match[0])
                named = _INLINE_RANK.search(match[0])  # "gpu-b11: [rank3]: "
                if named:
                    out.rank = int(named[1] or named[2] or named[3])
                out.text = out.text[match.end() :]
                break
        fixed = strip_fixed(out.text)
        if fixed.text != out.text:
            out.text = fixed.text
            out.time = out.time if fixed.time is None else fixed.time
            _writer(out, fixed.stream, fixed.rank)
        if out.text == before:
            break
    if out.rank is None and "ank" in out.text[:120]:
        match = _INLINE_RANK.search(out.text, 0, 120)
        if match:
            out.rank = int(match[1] or match[2] or match[3])
    return out


@lru_cache(4096)
def _name(kind: str, number: int) -> str:
    """The name of a writer's stream; one string for all of its lines."""
    return f"{kind}{number}"


def _writer(out: Stripped, stream: str, rank: int | None) -> None:
    """Inner prefixes are written by the process itself: they win over the launcher's."""
    if stream:
        out.stream = stream
    if rank is not None:
        out.rank = rank


def _bracket(out: Stripped) -> bool:
    text = out.text
    match = _RANK.match(text)
    if match:
        rank = int(match[1])
        _writer(out, _name("rank", rank), rank)
    else:
        match = _MPI.match(text)
        if match:
            _writer(out, _name("rank", int(match[1])), int(match[1]))
        else:
            match = _TORCHRUN_TEE.match(text)
            if match:
                _writer(out, _name("local", int(match[2])), int(match[2]))
            else:
                match = _POD.match(text)
                if match is None:
                    return False
                _writer(out, match[1], None)
    out.text = text[match.end() :]
    return True


def _ray(out: Stripped) -> bool:
    match = _RAY.match(out.text)
    if match is None:
        return False
    _writer(out, f"ray:{match[1] or ''}:{match[2]}", None)
    out.text = out.text[match.end() :]
    return True


def _timestamp(out: Stripped) -> bool:
    match = _CRI.match(out.text) or _ISO.match(out.text)
    if match is None:
        return False
    out.time = parse_clock(match[1])
    out.text = out.text[match.end() :]
    return True


def _compose(out: Stripped) -> bool:
    if "|" not in out.text[:70]:
        return False
    match = _COMPOSE.match(out.text)
    if match is None:
        return False
    _writer(out, match[1], None)
    out.text = out.text[match.end() :]
    return True
