"""How many parameters the model has, and how many of them are trained."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from oomph.evidence.facts.scan import Printer, Scanner
from oomph.evidence.facts.values import fact, is_failure_text, looks_like_code, scaled
from oomph.evidence.model import Document, Fact

_COUNT = r"(\d[\d,_]{0,20}(?:\.\d{1,6})?) ?([KMBTkmb](?:illion)?)?"
#: "number of parameters: 353.77M", "trainable parameter count 34.6M", "Total params: 7,000".
_NAMED = re.compile(
    r"\b(?P<which>(?:total |model )?(?:trainable )?)(?:parameters?|params)(?: count)?\s{0,3}"
    r"(?:[:=]|\bis\b|(?<=count))\s{0,3}" + _COUNT + r"(?![\w.%])",
    re.IGNORECASE,
)
#: "model 124.4M parameters built", "model ready, 6738.4M parameters", "8,030,261,248 total parameters".
_COUNTED = re.compile(
    r"(?<![\w.,/-])" + _COUNT + r" (?P<which>trainable |total )?param(?:eter)?s\b(?! per\b)", re.IGNORECASE
)
_PARTS = re.compile(r"\s*(?:\([^()]{1,40}\))?\s*\+\s*" + _COUNT, re.IGNORECASE)
_OF = re.compile(
    r"\btrainable(?: param(?:eter)?s)?\s?[:=]?\s?" + _COUNT + r"\s?(?:of|/)\s?" + _COUNT + r"(?![\w.])",
    re.IGNORECASE,
)
_FAIRSEQ = re.compile(r"num\. trained: (\d[\d,]{0,20})\)")
_MEGATRON = re.compile(
    r"number of parameters on \(tensor, pipeline\) model parallel rank \(0, 0\): (\d{1,15})"
)
_SIZE = re.compile(r"(?<!encoder-)\b(tensor|pipeline)-model-parallel size: (\d{1,6})")
#: Lightning's summary: rows "0 | model | Type | 6.2 B", below them "6.2 B     Trainable params".
_ROW = re.compile(r"^\s*(\d{1,3})\s*\| [^|]{1,80}\| [^|]{1,80}\| ([\d.,]{1,12}) ?([KMB])?\s*(?:\||$)")
_FOOTER = re.compile(r"^\s*([\d.,]{1,12}) ?([KMB])?\s+(Trainable|Total) params\s*$")
_NOT_ALL = re.compile(
    r"decayed|non-?trainable|frozen|per (?:layer|expert|node|rank|gpu)|active|shard|embedding", re.IGNORECASE
)
_MODEL = re.compile(r"\b(?:model|summary)\b", re.IGNORECASE)
_FEWEST = 1_000


def parse(document: Document) -> list[Fact]:
    """total_params and trainable_params, as whole numbers."""
    return _SCANNER.run(document)


def _read(document: Document, indices: Sequence[int]) -> Iterable[Fact]:
    whole_model_per_rank = False
    for index in indices:
        text = document.lines[index].text
        if is_failure_text(text.lower()) or looks_like_code(document, index):
            continue
        sizes = dict(_SIZE.findall(text)) if "-parallel size" in text else {}
        if sizes:
            whole_model_per_rank = sizes.get("tensor") == sizes.get("pipeline") == "1"
        megatron = _MEGATRON.search(text)
        if megatron:
            if whole_model_per_rank:
                yield fact(document, index, "total_params", megatron[1])
            continue
        for name, value in _line(document, index, text):
            if value is not None and int(value) >= _FEWEST:
                yield fact(document, index, name, value)


def _line(document: Document, index: int, text: str) -> Iterator[tuple[str, str | None]]:
    match = _OF.search(text)
    if match:
        yield "trainable_params", scaled(match[1], _letter(match[2]))
        yield "total_params", scaled(match[3], _letter(match[4]))
        return
    match = _FAIRSEQ.search(text)
    if match:
        yield "trainable_params", scaled(match[1], "")
    if "|" in text or "params" in text:
        yield from _lightning(document, index, text)
    if _NOT_ALL.search(text):
        return
    match = _NAMED.search(text)
    if match:
        value = scaled(match[2], _letter(match[3]))
        end = match.end()
        part = _PARTS.match(text, end)
        while part and value:
            more = scaled(part[1], _letter(part[2]))
            value = str(int(value) + int(more)) if more else None
            part = _PARTS.match(text, part.end())
        yield _name(match["which"]), value
        return
    match = _COUNTED.search(text)
    if match and (_MODEL.search(text, 0, match.start()) or match["which"]):
        yield _name(match["which"] or ""), scaled(match[1], _letter(match[2]))


def _name(which: str) -> str:
    return "trainable_params" if "trainable" in which.lower() else "total_params"


def _letter(suffix: str | None) -> str:
    return (suffix or "")[:1]


def _lightning(document: Document, index: int, text: str) -> Iterator[tuple[str, str | None]]:
    match = _FOOTER.match(text)
    if match:
        name = "trainable_params" if match[3] == "Trainable" else "total_params"
        yield name, scaled(match[1], match[2] or "")
        return
    match = _ROW.match(text)
    if match and match[1] == "0" and index + 1 < len(document.lines):
        below = document.lines[index + 1].text
        if not below.lstrip()[:1].isdigit() or _FOOTER.match(below):
            yield "total_params", scaled(match[2], match[3] or "")


PRINTER = Printer(
    ("parameters", "params", "parameter count", "trainable", "model-parallel size", "0 | "), _read
)
_SCANNER = Scanner((PRINTER,))
