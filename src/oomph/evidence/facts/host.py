"""Host memory: what is in use, and the limit that the job runs under."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal

from oomph.evidence.facts.scan import Printer, Scanner
from oomph.evidence.facts.values import fact
from oomph.evidence.model import Document, Fact

_DEEPSPEED = re.compile(r"CPU Virtual Memory: {1,3}used = [\d.]{1,12} GB, percent = (\d{1,3}(?:\.\d{1,4})?)%")
_RAY = re.compile(r"was running was [\d.]{1,12}GB / [\d.]{1,12}GB \((0\.\d{1,10}|1(?:\.0{1,10})?)\)")
_PSUTIL = re.compile(r"svmem\(total=\d+, [^\n]{0,80}?percent=(\d{1,3}(?:\.\d{1,4})?)")
_SLURM = re.compile(r"(?:^|\s)--mem[= ](\d{1,9}[KMGT]?B?)(?=\s|$|['\"])")
_TRES = re.compile(r"\b(?:Alloc|Req)TRES=[^\s]{0,200}?\bmem=(\d{1,9}(?:\.\d{1,3})?[KMGT])")
_DOCKER = re.compile(r"\bdocker run [^\n]{0,2000}?(?:--memory[= ]|-m )(\d{1,9}[kmgKMG]b?)\b")
_KUBE = re.compile(r"^\s*memory:\s{1,20}['\"]?(\d{1,9}(?:[KMGT]i?)?)['\"]?\s*$")
_KUBE_HEAD = re.compile(r"^\s*[Ll]imits:\s*$")
_NEAR = 6


def parse(document: Document) -> list[Fact]:
    """host_memory_percent (as printed, without the sign) and host_limit (as printed)."""
    return _SCANNER.run(document)


def _read(document: Document, indices: Sequence[int]) -> Iterable[Fact]:
    for index in indices:
        for name, value in _line(document, index, document.lines[index].text):
            yield fact(document, index, name, value)


def _line(document: Document, index: int, text: str) -> Iterator[tuple[str, str]]:
    match = _DEEPSPEED.search(text) or _PSUTIL.search(text)
    if match:
        yield "host_memory_percent", match[1]
    match = _RAY.search(text)
    if match:
        yield "host_memory_percent", f"{(Decimal(match[1]) * 100).normalize():f}"
    match = _SLURM.search(text) or _TRES.search(text) or _DOCKER.search(text)
    if match:
        yield "host_limit", match[1]
    match = _KUBE.match(text)
    if match and any(_KUBE_HEAD.match(line.text) for line in document.lines[max(0, index - _NEAR) : index]):
        yield "host_limit", match[1]


PRINTER = Printer(
    (
        "cpu virtual memory",
        "was running was",
        "svmem(",
        "--mem=",
        "--mem ",
        "tres=",
        "docker run",
        "memory: ",
    ),
    _read,
)
_SCANNER = Scanner((PRINTER,))
