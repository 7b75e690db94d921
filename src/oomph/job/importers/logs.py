"""What a log says of its job: the configurations that frameworks print when a training starts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from oomph.errors import OomphError
from oomph.job.importers import printed, shell
from oomph.job.importers.imported import Imported
from oomph.job.importers.recognise import recognise
from oomph.job.importers.text import Source, parse

#: Configurations are printed when a training starts; the rest of a large log is not looked at.
_READ = 8_000_000
#: What launchers and loggers put before each line: `[rank0]:`, `[1,0]<stdout>:`, `(RayTrainWorker pid=7)`.
_PREFIX = re.compile(
    r"^(?:\[[\w:,./ -]{1,40}\](?:<std(?:out|err)>)?:? ?|\([\w ]{1,40}pid=\d{1,10}[^)\n]{0,60}\) ?){1,3}",
    re.MULTILINE,
)
_TORCHTUNE = re.compile(r"with resolved config:[ \t]*\n+((?:[ \t]*[\w\-'\"$\[\]{}].*\n?){2,400})")
_DEEPSPEED = re.compile(r"\bjson = (?=\{)")
_OBJECTS = re.compile(r"\b([A-Z]\w{0,60}(?:Arguments|Config)|Trainer)\(")
_CONFIGS = re.compile(r"\b([A-Z]\w{0,60}Config) ?(?=\{)")
_COMMAND = re.compile(
    r"^[+$>]* ?(?:[A-Z_]\w*=\S{0,200} ){0,5}(?:\S{0,200}/)?"
    r"(?:torchrun|accelerate launch|deepspeed|tune run) .{0,8000}$",
    re.MULTILINE,
)
_MOST = 20


def in_log(text: str, name: str = "") -> tuple[Imported, ...]:
    """The configurations in a log, each kind once (the first that can be read), for `merge`. Empty where there is none;
    damaged ones give less. Nothing raises."""
    plain = _PREFIX.sub("", text[:_READ].replace("\r\n", "\n"))
    found: dict[str, Imported] = {}
    for source in _sources(plain, name):
        try:
            imported = recognise(source)(source)
        except OomphError:
            continue
        key = f"{imported.kind} {source.printed if imported.kind == 'config.json' else ''}"
        if key not in found and (imported.values or imported.model):
            found[key] = imported
    return tuple(found.values())


def _sources(text: str, name: str) -> Iterator[Source]:
    for number, match in enumerate(_OBJECTS.finditer(text)):
        if number >= _MOST:
            break
        one = printed.find(text[match.start() : match.start() + 200_000])
        if one is not None and one[0] == match.group(1):
            yield Source(name, "printed", one[1], "", printed=one[0])
    for number, match in enumerate(_CONFIGS.finditer(text)):
        if number >= _MOST:
            break
        table = _json(text, match.end())
        if table:
            yield Source(name, "printed", table, "", printed=match.group(1))
    dump = printed.dump(text)
    if dump:
        yield Source(name, "dump", dump, "")
    deepspeed = _DEEPSPEED.search(text)
    if deepspeed is not None:
        table = _json(text, deepspeed.end())
        if table:
            yield Source(name, "json", table, "")
    yield from _torchtune(text, name)
    for match in _COMMAND.finditer(text):
        command = shell.find(match.group().lstrip("+$> "))
        if command is not None:
            yield Source(name, "command", command.flags, "", command=command)
            break


def _json(text: str, start: int) -> dict[str, object]:
    try:
        data, _end = json.JSONDecoder().raw_decode(text, start)
    except (ValueError, RecursionError):
        return {}
    return data if isinstance(data, dict) else {}


def _torchtune(text: str, name: str) -> Iterator[Source]:
    match = _TORCHTUNE.search(text)
    if match is None:
        return
    block = match.group(1)
    # The block ends where no line of YAML follows; a logger's line after it is cut off piece by piece.
    lines = block.splitlines()
    for end in range(len(lines), max(1, len(lines) - 60), -1):
        try:
            source = parse("\n".join(lines[:end]), name)
        except OomphError:
            continue
        if source.syntax == "yaml":
            yield source
        return
