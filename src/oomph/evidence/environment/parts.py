"""A text as parts: what stands in one fence, behind one prompt, or between them.

An issue report pastes nvidia-smi, then collect_env, then a script; each is a part of its own, with its lines'
numbers in the file, without the indentation that all of its lines share.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from oomph.evidence.model import Document, Line, Quote

#: More lines of one part are not looked at: nothing that describes a machine is longer.
MOST_LINES = 200_000

_FENCE = re.compile(r"\s{0,12}(?:```|~~~)[`~]{0,3}\s{0,3}([\w+.#-]{0,30})[^`]{0,80}$")
_PROMPT = re.compile(
    r"(?:\([\w./+-]{1,60}\) {1,3}){0,3}"
    r"(?:"
    r"\[?[\w.+-]{1,40}@(?P<host>[\w.-]{1,80})(?:[ :][^\s$#%>]{0,200})?(?: \([\w/.-]{1,60}\))?\]? ?[$#%>]"
    r"|[$%❯➜](?= |$)|PS [A-Z]:\\[^>]{0,200}>|[A-Z]:\\[^>|]{0,200}>|(?:bash|sh)-\d\.\d{1,2}[$#]"
    r") ?(?P<command>\S[^\n]*)?$"
)
_NOTEBOOK = re.compile(r"!\s{0,2}(?P<command>[A-Za-z/][^\n]*)$")
_ROOT = re.compile(
    r"# {0,2}(?P<command>(?:nvidia-smi|env|printenv|ip|cat|df|free|ulimit|ibv_\w+|ibstat|dmesg|lscpu)\b[^\n]*)$"
)
_XTRACE = re.compile(r"\+{1,4} (?P<command>[A-Za-z./][^\n]*)$")
_CONTAINER_HOST = re.compile(r"[0-9a-f]{12}\Z")


@dataclass(frozen=True)
class Command:
    """What was typed at a prompt, and who was asked: `host` as the prompt shows it."""

    text: str
    line: Line
    host: str = ""

    @property
    def program(self) -> str:
        """Its first word without a directory, sudo aside."""
        words = [word for word in self.text.split() if word != "sudo"]
        return words[0].rpartition("/")[2] if words else ""


@dataclass
class Part:
    """Lines that belong together. `command` is what printed them, where a prompt shows it; `language` a fence's word;
    `whole` says that the part is all of its file."""

    source: str
    lines: list[Line]
    command: Command | None = None
    language: str = ""
    whole: bool = False
    rank: int | None = None

    def quote(self, line: Line) -> Quote:
        """The line as a quote."""
        return Quote(self.source, line.number, line.text.strip())

    @property
    def name(self) -> str:
        """The file's own name, in lower case."""
        return self.source.replace("\\", "/").rpartition("/")[2].lower()

    @property
    def program(self) -> str:
        """The program that printed it, "" where no prompt says."""
        return self.command.program if self.command is not None else ""

    @property
    def text(self) -> str:
        """The lines as one text."""
        return "\n".join(line.text for line in self.lines)


def container_host(host: str) -> bool:
    """Docker names a container's host after the container: twelve hexadecimal digits."""
    return _CONTAINER_HOST.match(host) is not None and not host.isdigit()


def split(document: Document) -> list[Part]:
    """The parts of a document, and the commands of its prompts with them, in order. A file without fences and prompts
    is one part."""
    lines = document.lines[:MOST_LINES]
    pieces = list(_pieces(document.source, lines))
    parts = [one for one in pieces if one.lines or one.command is not None]
    for part in parts:
        part.rank = document.rank
        part.lines = _dedented(part.lines, answer=part.command is not None)
    if len(parts) == 1:
        parts[0].whole = True
    return parts


def _pieces(source: str, lines: Sequence[Line]) -> Iterator[Part]:
    script = _is_script(lines)
    current = Part(source, [])
    fenced = False
    for line in lines:
        text = line.text
        fence = _FENCE.match(text) if "``" in text or "~~" in text else None
        if fence is not None and not script:
            yield current
            fenced = not fenced
            current = Part(source, [], language=fence[1].lower() if fenced else "")
            continue
        inside = bool(current.lines) and current.lines[0].text.lstrip().startswith("#!")
        command = None if script or (inside and text.lstrip()[:1] == "#") else _command(text)
        if command is not None:
            yield current
            typed = Command(command[0], line, command[1]) if command[0] else None
            current = Part(source, [], command=typed, language=current.language if fenced else "")
            continue
        current.lines.append(line)
    yield current


def _is_script(lines: Sequence[Line]) -> bool:
    """A file that begins as a program holds no prompts: "$" and "%" stand in it for something else."""
    first = next((line.text for line in lines if line.text.strip()), "")
    return first.startswith(("#!", "FROM ", "# syntax="))


def _command(text: str) -> tuple[str, str] | None:
    """(command, host) of a prompt's line; None for any other line."""
    stripped = text.strip()
    first = stripped[:1]
    if not first or len(stripped) > 4_000:
        return None
    if first == "#":
        match = _ROOT.match(stripped)
    elif first == "!":
        match = _NOTEBOOK.match(stripped)
    elif first == "+":
        match = _XTRACE.match(stripped)
    else:
        match = _PROMPT.match(stripped)
    if match is None:
        return None
    groups = match.groupdict()
    command = (groups.get("command") or "").strip()
    if not command and not groups.get("host"):
        return None
    if first == "%" and not command[:1].isalpha():
        return None
    return command, groups.get("host") or ""


def _dedented(lines: list[Line], *, answer: bool) -> list[Line]:
    """The lines without their common indentation and without empty lines at the ends. What answers a prompt is as deep
    as its first line; sentences of the report may follow it further left."""
    begin, end = 0, len(lines)
    while begin < end and not lines[begin].text.strip():
        begin += 1
    while end > begin and not lines[end - 1].text.strip():
        end -= 1
    lines = lines[begin:end]
    width = min(
        (len(line.text) - len(line.text.lstrip(" ")) for line in lines if line.text.strip()), default=0
    )
    if not width and answer and lines:
        first = len(lines[0].text) - len(lines[0].text.lstrip(" "))
        width = first if first <= 12 else 0
    if not width:
        return lines
    return [
        Line(
            one.text[min(width, len(one.text) - len(one.text.lstrip(" "))) :],
            one.number,
            one.stream,
            one.rank,
            one.time,
        )
        for one in lines
    ]
