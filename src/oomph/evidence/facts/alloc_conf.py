"""Allocator settings that the job made: PYTORCH_(CUDA_|HIP_)ALLOC_CONF and the memory fraction.

The out-of-memory message names the same variable as advice; that is not a setting and gives nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from oomph.evidence.facts.scan import Printer, Scanner
from oomph.evidence.facts.values import fact, is_failure_text
from oomph.evidence.model import Document, Fact

_CONF = re.compile(
    r"PYTORCH_(?:CUDA_|HIP_)?ALLOC_CONF['\"]?\]?\)?\s{0,20}(?:=|:|,)\s{0,20}['\"]?"
    r"([a-z_][a-z_\d]{2,40}:[\w.:,\[\]>;|-]{1,300})"
)
_ADVICE = re.compile(
    r"\b(?:try|consider|recommend\w*|suggest\w*|hint|tip|should|could|may|might|please|use|instead|e\.g|example|"
    r"setting environment variable|see|note)\b|# ",
    re.IGNORECASE,
)
_WRAPPED = re.compile(r"(?:try setting|memory is large|\btry|setting)\s*$", re.IGNORECASE)
_PURPOSE = re.compile(r"\s*(?:to avoid|avoid|to |if |when |for |and see|\()", re.IGNORECASE)
_FRACTION = re.compile(r"set_per_process_memory_fraction\(\s*(?:fraction ?= ?)?(0?\.\d{1,6}|1\.0{1,6})\b")


def parse(document: Document) -> list[Fact]:
    """alloc_conf as set in an environment dump, a command or the code that was echoed; memory_fraction."""
    return _SCANNER.run(document)


def _read(document: Document, indices: Sequence[int]) -> Iterable[Fact]:
    for index in indices:
        text = document.lines[index].text
        if is_failure_text(text.lower()):
            continue
        fraction = _FRACTION.search(text)
        if fraction and not _ADVICE.search(text):
            yield fact(document, index, "memory_fraction", fraction[1])
        match = _CONF.search(text)
        if match and not _is_advice(document, index, text, match):
            yield fact(document, index, "alloc_conf", match[1].rstrip(".,;:|-"))


def _is_advice(document: Document, index: int, text: str, match: re.Match[str]) -> bool:
    """True for the allocator's hint (also when it was wrapped) and for prose about the variable."""
    if _ADVICE.search(text, 0, match.start()) or _PURPOSE.match(text, match.end()):
        return True
    if index and _WRAPPED.search(document.lines[index - 1].text):
        return True
    if index + 1 < len(document.lines) and not text[match.end() :].strip(" '\")"):
        following = document.lines[index + 1].text.lower()
        return (
            following.lstrip().startswith(("to avoid", "avoid fragmentation"))
            or "avoid fragmentation" in following
        )
    return False


PRINTER = Printer(("alloc_conf", "set_per_process_memory_fraction"), _read)
_SCANNER = Scanner((PRINTER,))
