"""Failure texts that a logger printed in one letter case ("cuda out of memory. tried to allocate 2.00 gib.").

Only the known words of PyTorch's messages and tracebacks are given back their letters; the length never changes, so
that the original stands at the same columns.
"""

from __future__ import annotations

import re

_LOWER = ("out of memory. tried to allocate", "cuda error: out of memory", "hip error: out of memory")
_UPPER = tuple(needle.upper() for needle in _LOWER)
_LOWER_ROWS = (*_LOWER, "traceback (most recent call last)")
_UPPER_ROWS = (*_UPPER, "TRACEBACK (MOST RECENT CALL LAST)")
_FRAME = re.compile(r'(?:^|\s)file "[^"]{1,1000}", line \d')

#: As PyTorch's allocators (c10/cuda/CUDACachingAllocator.cpp and its kin) and Python print them.
_PHRASES = (
    "Traceback (most recent call last)",
    "Tried to allocate",
    "Including non-PyTorch memory",
    "Of the allocated memory",
    "by PyTorch",
    "CUDA Graphs",
    "If reserved",
    "See documentation for Memory Management",
    "expandable_segments:True",
    "OutOfMemoryError",
    "RuntimeError",
    "AcceleratorError",
    "PYTORCH_CUDA_ALLOC_CONF",
    "PYTORCH_HIP_ALLOC_CONF",
    "PYTORCH_ALLOC_CONF",
    "CUDA error",
    "HIP error",
    *(f"{vendor} out of memory" for vendor in ("CUDA", "HIP", "XPU", "NPU", "MUSA", "MLU", "GCU", "HPU")),
)
_PROPER = {phrase.lower(): phrase for phrase in _PHRASES}
_WORDS = re.compile(
    "|".join(re.escape(phrase) for phrase in sorted(_PHRASES, key=len, reverse=True))
    + r"|(?<=[0-9] )[kmgt]ib\b"
    + r"|\b(?:gpu|xpu|npu)(?= [0-9]{1,4}(?: has a total|;))|\bgpu(?=\s{1,2}has a total)"
    + r"|\bprocess(?= [0-9]{1,10} has )"
    + r'|(?<!\S)file(?= "[^"]{1,1000}", line [0-9])',
    re.IGNORECASE,
)


def may_be_in_one_case(text: str) -> bool:
    """Does any line of `text` (of any length) need a look by `restore`?"""
    return any(needle in text for needle in (*_LOWER, *_UPPER))


def restore(row: str) -> str:
    """`row` with the letters of a failure's text as PyTorch and Python print them; `row` itself where it has none."""
    if any(needle in row for needle in _LOWER_ROWS):
        return _WORDS.sub(_letters, row)
    if any(needle in row for needle in _UPPER_ROWS) or ('FILE "' in row and '", LINE ' in row):
        lower = row.lower()
        return _WORDS.sub(_letters, lower) if len(lower) == len(row) else row
    if 'file "' in row and _FRAME.search(row):
        return _WORDS.sub(_letters, row)
    return row


def _letters(match: re.Match[str]) -> str:
    lower = match[0].lower()
    proper = _PROPER.get(lower)
    if proper is not None:
        return proper
    if lower in ("kib", "mib", "gib", "tib"):
        return f"{lower[0].upper()}iB"
    return lower.capitalize() if lower in ("process", "file") else lower.upper()
