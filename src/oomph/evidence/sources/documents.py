"""Files that are one JSON document: notebooks, and the error files of torchelastic."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import datetime, timezone

from oomph.evidence.sources.decode import decode

#: Larger documents are read as text: images make notebooks big, error files hold one traceback.
_NOTEBOOK_BYTES = 32 << 20
_ERROR_FILE_BYTES = 1 << 20
#: More than this is not parsed, however little of it images are: objects take several times the space of their text.
_PARSED_BYTES = 10 << 20
_IMAGE = re.compile(rb'("image/(?:png|jpeg|gif|webp)": ?")[^"]+')
_PLAIN_KEYS = frozenset({"message", "errorCode", "extraInfo", "timestamp"})


@dataclass(frozen=True)
class Extracted:
    """The text to read instead of the document's own, and a sentence about it."""

    text: str
    note: str = ""


def document_bytes(sample: bytes) -> int:
    """How much to read of a file that begins with `sample` to see whether it is a document that `extract` knows; 0
    when it is none."""
    head = sample.lstrip()[:4096]
    if not head.startswith(b"{"):
        return 0
    if b'"cells"' in head or b'"worksheets"' in head or b'"nbformat"' in head:
        return _NOTEBOOK_BYTES
    return _ERROR_FILE_BYTES if b'"message"' in head else 0


def extract_bytes(data: bytes) -> Extracted | None:
    """`extract` of a file's bytes, without its images."""
    if len(data) > _PARSED_BYTES // 10 and b'"image/' in data:
        data = _IMAGE.sub(rb"\1", data)
    return extract(decode(data)) if len(data) <= _PARSED_BYTES else None


def extract(text: str) -> Extracted | None:
    """What the document `text` says; None when it is not one that is known (a file of JSON records is not one)."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(document, dict):
        return None
    if isinstance(document.get("cells"), list) or isinstance(document.get("worksheets"), list):
        return _notebook(document)
    return _error_file(document)


def _error_file(document: dict[str, object]) -> Extracted | None:
    """torch/distributed/elastic/multiprocessing/errors/error_handler.py: {"message": {"message": ..., "extraInfo":
    {"py_callstack": ..., "timestamp": seconds}}}; processes that were killed before have a plain message."""
    message = document.get("message")
    if isinstance(message, str):
        return Extracted(message) if set(document) <= _PLAIN_KEYS else None
    if not isinstance(message, dict):
        return None
    extra = message.get("extraInfo")
    if not isinstance(extra, dict):
        return None
    stack = extra.get("py_callstack")
    body = stack if isinstance(stack, str) and stack.strip() else message.get("message")
    if not isinstance(body, str):
        return None
    prefix = _stamp(extra.get("timestamp"))
    rows = body.rstrip("\n").split("\n")
    # All rows stand in the file's one line: carriage returns start no new line number.
    return Extracted("\r".join(prefix + row for row in rows))


def _stamp(seconds: object) -> str:
    """`seconds` since the epoch as the timestamp that collectors write before a line, "" when it is none."""
    try:
        value = int(seconds) if isinstance(seconds, (str, int)) else -1
        if not 0 < value < 1 << 33:
            return ""
        return datetime.fromtimestamp(value, timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.000Z ")
    except (ValueError, OSError, OverflowError):
        return ""


def _notebook(document: dict[str, object]) -> Extracted | None:
    cells = _cells(document)
    if cells is None:
        return None
    rows: list[str] = []
    for cell in cells:
        outputs = cell.get("outputs")
        for output in outputs if isinstance(outputs, list) else []:
            if isinstance(output, dict):
                rows.extend(_output(output))
    return Extracted("\n".join(rows), "line numbers count within the notebook's outputs")


def _cells(document: dict[str, object]) -> list[dict[str, object]] | None:
    found: list[object] = []
    cells, worksheets = document.get("cells"), document.get("worksheets")
    if isinstance(cells, list):
        found += cells
    for sheet in worksheets if isinstance(worksheets, list) else []:
        inner = sheet.get("cells") if isinstance(sheet, dict) else None
        found += inner if isinstance(inner, list) else []
    kept = [cell for cell in found if isinstance(cell, dict)]
    known = "nbformat" in document or any("cell_type" in cell for cell in kept)
    return kept if known else None


def _output(output: dict[str, object]) -> list[str]:
    """nbformat 3 and 4: streams, errors and text results, as lines."""
    kind = output.get("output_type")
    if kind == "stream":
        return _lines(output.get("text"))
    if kind in ("error", "pyerr"):
        traceback = output.get("traceback")
        if isinstance(traceback, list) and traceback:
            return [row for part in traceback if isinstance(part, str) for row in part.split("\n")]
        return [f"{output.get('ename')}: {output.get('evalue')}"]
    data = output.get("data")
    source = data.get("text/plain") if isinstance(data, dict) else output.get("text")
    return _lines(source)


def _lines(text: object) -> list[str]:
    """A string, or a list of strings that may or may not end in "\\n"."""
    if isinstance(text, list):
        text = "".join(part for part in text if isinstance(part, str))
    if not isinstance(text, str) or not text:
        return []
    return text.removesuffix("\n").split("\n")
