"""Logs with one JSON object in each line, as the text that the job wrote.

Known shapes: Docker's json-file driver ({"log": "...\\n", "stream": "stderr", "time": "..."}), Kubernetes CRI lines
that hold such objects, python-json-logger and structlog ({"event"|"message"|"msg": ..., "exc_info"|"exception": ...}),
Google Cloud ({"textPayload": ...} or {"jsonPayload": {"message": ...}}), Elastic ("@timestamp", "error.stack_trace").
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

_TEXT_KEYS = ("log", "message", "msg", "event", "text", "textPayload", "body")
_NESTED_KEYS = ("jsonPayload", "log", "fields", "record", "error", "exception")
_TRACE_KEYS = (
    "exc_info",
    "exception",
    "traceback",
    "stack_trace",
    "stacktrace",
    "exc_text",
    "stack",
    "error",
)
_NESTED_TRACE_KEYS = (*_TRACE_KEYS, "stackTrace", "message")
_TIME_KEYS = ("time", "timestamp", "@timestamp", "ts", "asctime")
_RANK_KEYS = ("rank", "global_rank")
_RFC3339 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.(\d{1,9}))?(?:Z|\+00:00)\Z")
#: A collector's prefix before the object: Kubernetes CRI, or docker compose.
_PREFIX = re.compile(r"(?:\S{20,40} std(?:out|err) [FP] |[\w.-]{1,60} +\| )(?=\{)")
#: An element of a pretty-printed array of strings.
_STRING_LINE = re.compile(r'^[ \t]{1,8}"(?:[^"\\\n]|\\.)*",?$', re.MULTILINE)
#: Lines longer than this are not logs.
_LONGEST = 1 << 20


def _strings(text: str) -> str:
    """Arrays of strings, one in each line, as the lines that the strings are."""
    lines = text.split("\n")
    for index, line in enumerate(lines):
        if _STRING_LINE.match(line):
            try:
                lines[index] = json.loads(line.strip().rstrip(",")).rstrip("\n").replace("\n", "\r")
            except ValueError:
                continue
    return "\n".join(lines)


def unwrap(text: str) -> str:
    """`text` with every line that is a JSON log record replaced by its message. Line numbers stay what they are: the
    further lines of a message follow after a carriage return, which starts no new number."""
    if text[:1] in "[{" and "\n" in text[:200] and _STRING_LINE.search(text, 0, 4_000):
        return _strings(text)
    if '{"' not in text and "{ " not in text:
        return text
    lines = text.split("\n")
    for index, line in enumerate(lines):
        if line[:1] == "{":
            message = _message(line)
            if message is not None:
                lines[index] = message
        elif "| {" in line[:80] or " F {" in line[:80] or " P {" in line[:80]:
            prefix = _PREFIX.match(line)
            message = _message(line[prefix.end() :]) if prefix else None
            if prefix and message is not None:
                lines[index] = "\r".join(prefix[0] + part for part in message.split("\r"))
    return "\n".join(lines)


def _message(line: str) -> str | None:
    """The text of one record, None when it is not one."""
    if len(line) > _LONGEST or not line.rstrip().endswith("}"):
        return None
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(record, dict):
        return None
    text = _text(record)
    if text is None:
        return None
    parts = [text.rstrip("\n"), *_traces(record, text)]
    parts[0] += _numbers(record, parts[0])
    prefix = _prefix(record)
    rows = "\n".join(parts).replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return "\r".join(prefix + row for row in rows)


def _text(record: Mapping[str, object]) -> str | None:
    for key in _TEXT_KEYS:
        value = record.get(key)
        if isinstance(value, str):
            return value
    for key in _NESTED_KEYS:
        value = record.get(key)
        if isinstance(value, dict):
            found = next((value[k] for k in _TEXT_KEYS if isinstance(value.get(k), str)), None)
            if found is not None:
                return str(found)
    return None


def _traces(record: Mapping[str, object], text: str) -> list[str]:
    """Tracebacks and error texts that stand beside the message."""
    found: list[str] = []
    for key in _TRACE_KEYS:
        value = record.get(key)
        candidates = [value]
        if isinstance(value, dict):
            candidates = [value.get(inner) for inner in _NESTED_TRACE_KEYS]
        elif isinstance(value, list) and all(isinstance(item, str) for item in value):
            candidates = ["\n".join(item.rstrip("\n") for item in value)]
        for candidate in candidates:
            if isinstance(candidate, str) and candidate.strip() and candidate not in text:
                if candidate not in found:
                    found.append(candidate.rstrip("\n"))
    return found


def _numbers(record: Mapping[str, object], text: str) -> str:
    """The numeric fields of a short message ("train_step" with step, loss and memory), as key=value."""
    if "\n" in text or len(text) > 200 or "log" in record:
        return ""
    fields = [
        f"{key}={value}"
        for key, value in record.items()
        if isinstance(value, (int, float))
        and not isinstance(value, bool)
        and key not in _TIME_KEYS
        and key not in _RANK_KEYS
    ]
    return "".join(" " + field for field in fields[:40])


def _prefix(record: Mapping[str, object]) -> str:
    """The record's time and rank in the form in which collectors and torch write them before a line."""
    prefix = ""
    for key in _TIME_KEYS:
        value = record.get(key)
        match = _RFC3339.match(value) if isinstance(value, str) else None
        if match:
            fraction = (match[1] or "").ljust(3, "0")
            prefix = f"{match[0][:19]}.{fraction}Z "
            break
    for key in _RANK_KEYS:
        value = record.get(key)
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1_000_000:
            return f"{prefix}[rank{value}]: "
    return prefix
