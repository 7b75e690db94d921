"""The configurations that a log shows: what frameworks print, and files and commands that were echoed into it."""

from __future__ import annotations

import ast
import json
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import accumulate, islice

from oomph.errors import OomphError
from oomph.evidence.model import Document, Quote
from oomph.job.importers import Imported, printed, read
from oomph.job.importers.logs import in_log
from oomph.remedy import log_titan

#: Configurations stand at the start; of a log that keeps more before its failure, no more is looked at.
_LINES = 20_000
_CHARACTERS = 2_000_000
_LONGEST_LINE = 20_000
#: Blocks that are tried, and lines of one.
_MOST = 40
_BLOCK_LINES = 600
#: Places of a key that are looked at for its value.
_MOST_PLACES = 200
#: `Namespace(...)` is what argparse prints; the reader of objects takes those that are called arguments.
_NAMESPACE = re.compile(r"\bNamespace\(")
#: A word and a colon before a configuration: "config: {", "2025-03-04 09:00:00 INFO Running with args: {".
_OPENS = re.compile(r"^(?:[^{}\n]{0,200}[\s:=])?(?=\{\s*(?:['\"]|$))")
_KEY = re.compile(r"^\s{0,40}(?:- )?['\"]?[A-Za-z_][\w.\-/]{0,80}['\"]?\s?(?::(?:\s|$)|\s=\s|=)")
_SECTION = re.compile(r"^\[[a-z_][\w.]{0,60}\]\s*$")
_ITEM = re.compile(r"^\s{0,40}(?:- \S|\.\.\.$|---$|#|$)")
_PYTHON = re.compile(r"[+$>\s]{0,4}(?:\S{0,200}/)?python[\d.]{0,5} ")


def configurations(document: Document, until: int) -> tuple[Imported, ...]:
    """What the lines of a document before line index `until` say of its job, each format once. What several writers
    print into each other is taken of the one that says most. Nothing raises."""
    lines = _lines(document, until)
    text = "\n".join(lines)
    found = {each.kind: each for each in reversed(in_log(text, "the log"))}
    for block in (*_namespaces(text), *_blocks(lines), *log_titan.arguments(lines)):
        try:
            imported = read(block)
        except OomphError:
            continue
        except (RecursionError, ValueError, OverflowError):
            continue
        if imported.kind not in found and (imported.values or imported.model is not None):
            found[imported.kind] = imported
    return tuple(found.values())


def lines_of(document: Document, until: int, said: Mapping[str, str]) -> dict[str, Quote]:
    """For each path of `said` the first line that says its `key = value` (as an importer quotes it) in any spelling;
    paths of which no line does are left out."""
    texts = [line.text[:_LONGEST_LINE].lower() for line in document.lines[: min(until, _LINES)]]
    text = "\n".join(texts)
    starts = [0, *accumulate(len(each) + 1 for each in texts)]
    found = {}
    for path, quoted in said.items():
        key, _, value = quoted.partition(" = ")
        words = value.lower().split()
        key = key.rpartition(".")[2].lstrip("-").lower()
        if not key or not words:
            continue
        spelled = re.compile(re.escape(key).replace("_", "[_ -]").replace(r"\-", "[_ -]"))
        for match in islice(spelled.finditer(text), _MOST_PLACES):
            index = bisect_right(starts, match.start()) - 1
            if words[0].strip("'\"[](){},") in texts[index][match.end() - starts[index] :]:
                found[path] = document.quote(index)
                break
    return found


def _namespaces(text: str) -> Iterator[str]:
    """What argparse prints of its arguments, as JSON."""
    for match in islice(_NAMESPACE.finditer(text), 3):
        one = printed.find(f"ScriptArguments({text[match.end() : match.end() + 200_000]}")
        if one is not None:
            yield json.dumps(dict(one[1]), default=str)


def _lines(document: Document, until: int) -> list[str]:
    """The text before the failure of one writer: lines without a stream, and those of the stream that says most (lines
    of tracebacks, which are indented, aside)."""
    lines = document.lines[: min(until, _LINES)]
    streams = Counter(line.stream for line in lines if line.stream and line.text[:1].strip())
    chosen = {"", *(stream for stream, _ in streams.most_common(1))}
    kept: list[str] = []
    size = 0
    for line in lines:
        if line.stream not in chosen:
            continue
        text = line.text[:_LONGEST_LINE]
        size += len(text) + 1
        if size > _CHARACTERS:
            break
        kept.append(text)
    return kept


def _blocks(lines: list[str]) -> Iterator[str]:
    """Texts that may be a configuration: objects in braces, runs of lines with keys, commands of Python."""
    count = 0
    index = 0
    while index < len(lines) and count < _MOST:
        line = lines[index]
        if ".py " in line and " --" in line and _PYTHON.match(line):
            count += 1
            yield line.lstrip("+$> \t")
            index += 1
        elif _OPENS.match(line):
            count += 1
            text, used = _braces(lines, index)
            if text:
                yield text
            index += used
        else:
            block = _run(lines, index)
            if len(block) >= 4:
                count += 1
                yield "\n".join(block) + "\n"
            index += max(1, len(block))


def _run(lines: list[str], start: int) -> list[str]:
    """Lines with keys (YAML or TOML) from `start` on, as far as they go."""
    block: list[str] = []
    for line in lines[start : start + _BLOCK_LINES]:
        if not (_KEY.match(line) or _SECTION.match(line) or (block and _ITEM.match(line))):
            break
        block.append(line)
    while block and not block[-1].strip():
        block.pop()
    return block


def _braces(lines: list[str], start: int) -> tuple[str, int]:
    """An object in braces as JSON, and how many lines it takes; ("", 1) where there is none."""
    line = lines[start]
    match = _OPENS.match(line)
    text = "\n".join([line[match.end() if match else 0 :], *lines[start + 1 : start + _BLOCK_LINES]])
    try:
        data, end = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        data, end = _literal(line[match.end() if match else 0 :])
    if not isinstance(data, dict) or len(data) < 3:
        return "", 1
    return json.dumps(data, default=str), text.count("\n", 0, end) + 1


def _literal(text: str) -> tuple[object, int]:
    """A dictionary as Python prints it, on one line."""
    end = text.rfind("}")
    if end < 0:
        return None, 0
    try:
        return ast.literal_eval(text[: end + 1]), end
    except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
        return None, 0
