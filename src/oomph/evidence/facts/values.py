"""Facts and their values: the spellings that configs use for numbers, switches and number formats."""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation

from oomph.evidence.model import Document, Fact, Position, Quote

_SCALE = {"": 1, "k": 10**3, "m": 10**6, "b": 10**9, "g": 10**9, "t": 10**12}
_TRUE = frozenset({"true", "yes", "on", "1", "enabled", "enable", "full", "selective", "unsloth"})
_FALSE = frozenset({"false", "no", "off", "0", "disabled", "disable", "none", "null"})
_DTYPES = {
    "float32": "fp32",
    "fp32": "fp32",
    "float": "fp32",
    "float16": "fp16",
    "half": "fp16",
    "fp16": "fp16",
    "bfloat16": "bf16",
    "bf16": "bf16",
    "int8": "8bit",
    "8bit": "8bit",
    "nf4": "4bit",
    "int4": "4bit",
    "4bit": "4bit",
}
_CODE = re.compile(
    r"\s*(?:[-❱>|│ ]*\d+ [│|]? *)?(?:return |yield |raise |await |assert |with |for |if |elif |while |def |class |@|"
    r"[\w.\[\]'\"*, ]{1,80}=\s*(?!dict\()[a-z_][\w.]{0,80}\(|[a-z_][\w.]{0,80}\()"
)
_DATA_CLASS = re.compile(r"\s*(?:[\w.]+\s*=\s*)?\w*(?:Namespace|Arguments|Args|Config|dict)\(")


def fact(document: Document, index: int, name: str, value: str, rank: int | None = None) -> Fact:
    """A Fact of the line at `index`; its rank is the line's unless another is named."""
    line = document.lines[index]
    quote = Quote(document.source, line.number, line.text.strip())
    return Fact(name, value, Position(document.index, index), quote, line.rank if rank is None else rank)


def is_failure_text(low: str) -> bool:
    """True for (lower-case) text about running out of memory: such lines give advice, not settings."""
    return "out of memory" in low or "tried to allocate" in low or "outofmemory" in low


def whole(text: str) -> str | None:
    """`1,204,112` -> `1204112`; None when the text is not a positive whole number below 10**15."""
    digits = text.replace(",", "").replace("_", "")
    if not digits.isascii() or not digits.isdigit() or len(digits) > 15:
        return None
    value = int(digits)
    return str(value) if value else None


def scaled(number: str, suffix: str) -> str | None:
    """("353.77", "M") -> "353770000", ("6,738,415,616", "") -> "6738415616"; None when it is not a count."""
    factor = _SCALE.get(suffix.strip().lower())
    if factor is None or len(number) > 30:
        return None
    try:
        value = Decimal(number.replace(",", "").replace("_", "")) * factor
    except InvalidOperation:
        return None
    if not 0 < value < 10**15 or (factor == 1 and value != value.to_integral_value()):
        return None
    return str(int(value.to_integral_value()))


def switch(text: str) -> str | None:
    """The switch, true or false, for the ways to write it; None for anything else."""
    word = text.strip().lower()
    if word in _TRUE:
        return "true"
    return "false" if word in _FALSE else None


def dtype(text: str) -> str | None:
    """`torch.bfloat16` -> `bf16`; None when it is not a number format of weights."""
    return _DTYPES.get(text.strip().lower().removeprefix("torch."))


def looks_like_code(document: Document, index: int) -> bool:
    """True for a source line of a traceback: the line behind a frame, or a line that is a call, not an echo of
    settings (an argparse Namespace or a Config's repr is one)."""
    text = document.lines[index].text
    if text.lstrip().startswith(('File "', "File '")):
        return True
    if (
        index
        and document.lines[index - 1].text.lstrip().startswith('File "')
        and ", line " in (document.lines[index - 1].text)
    ):
        return True
    head = text[:240]
    return _CODE.match(head) is not None and _DATA_CLASS.match(head) is None
