"""Which figure do the words beside a number name?

A label is the run of known words that stands directly before a number ("gpu mem_alloc", "max reserved (GB)"). Words
that turn a figure into something else ("kv cache", "free", "model", "total") before the run make it no figure at all.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_ALLOCATED = frozenset({"allocated", "alloc", "allocation"})
_RESERVED = frozenset({"reserved", "reserve", "resv", "rsvd", "cached"})
_USED = frozenset({"used", "usage", "use", "occupied"})
_MEMORY = frozenset({"mem", "memory", "vram"})
_DEVICE = frozenset({"gpu", "cuda", "torch", "pytorch", "device", "vram", "hip", "xpu", "npu"})
_PEAK = frozenset({"max", "maximum", "peak"})
_HOST = frozenset({"host", "cpu", "rss", "ram", "system"})
_FILL = frozenset({"current", "cur", "now", "is", "was", "process"})
_UNITS = frozenset({"gb", "gib", "mb", "mib", "bytes"})
_KNOWN = _ALLOCATED | _RESERVED | _USED | _MEMORY | _DEVICE | _PEAK | _HOST | _FILL

#: Directly before the run, these make it a different figure (or an estimate of one).
_NOT_A_SAMPLE = frozenset(
    {
        "free",
        "total",
        "available",
        "tried",
        "kv",
        "cache",
        "limit",
        "budget",
        "estimated",
        "estimate",
        "expected",
        "required",
        "need",
        "needs",
        "would",
        "model",
        "shared",
        "pinned",
        "weights",
        "weight",
        "params",
        "param",
        "parameters",
        "optimizer",
        "gradient",
        "gradients",
        "activation",
        "activations",
        "state",
        "states",
        "non",
        "unallocated",
        "disk",
        "swap",
        "of",
        "and",
        "or",
        "not",
        "requested",
        "requires",
    }
)

_WORD = re.compile(r"[A-Za-z]+|[0-9]+")
_GAP = re.compile(r"[\s_/().\[\]\-]{0,3}\Z")
_TAIL = re.compile(r"[\s:=|(\[~\"')\]]{0,12}\Z")
_WORDS_KEPT = 8


@dataclass(frozen=True, slots=True)
class Label:
    """What a run of words names: `what` as in MemorySample, "max" for a lone "max", "pair" for "alloc/reserved".

    `strong` is False where only "mem" or "memory" say that the number is memory. `of_device` is True where a word of
    the run says that it is a GPU's. `unit` is the unit that stands in the label itself, or "". `names` are the figures
    of a pair.
    """

    what: str
    strong: bool
    of_device: bool
    unit: str = ""
    names: tuple[str, ...] = ()
    start: int = 0
    peak: bool = False


def label_before(text: str, *, pair: bool) -> Label | None:
    """The label at the end of `text` (what stands before a number), or None; `pair` says that "a/b" follows."""
    words = list(_WORD.finditer(text))[-_WORDS_KEPT:]
    if not words or _TAIL.match(text, words[-1].end()) is None:
        return None
    unit = ""
    if words[-1][0].lower() in _UNITS and len(words) > 1:
        unit = words.pop()[0].lower()
    if pair and len(words) > 1 and words[-1][0].lower() == "total" and _names_figure(words[-2][0].lower()):
        words.pop()
    run: list[str] = []
    start = len(text)
    before = ""
    for word in reversed(words):
        lower = word[0].lower()
        adjacent = start == len(text) or _GAP.match(text[word.end() : start]) is not None
        if lower not in _KNOWN or not adjacent:
            before = lower if adjacent else ""
            break
        run.append(lower)
        start = word.start()
    if not run or before in _NOT_A_SAMPLE or text[:start].endswith("--"):
        return None
    return _name(run[::-1], unit, start)


def _names_figure(word: str) -> bool:
    return word in _ALLOCATED or word in _RESERVED or word in _USED


def _name(run: list[str], unit: str, start: int) -> Label | None:
    words = set(run)
    allocated, reserved = bool(words & _ALLOCATED), bool(words & _RESERVED)
    memory, used = bool(words & _MEMORY), bool(words & _USED)
    of_device, peak = bool(words & _DEVICE), bool(words & _PEAK)
    if words & _HOST:
        host = "rss" in words or memory or (used and "ram" in words)
        if allocated or reserved or of_device or peak or not host:
            return None
        return Label("host_used", True, False, unit, start=start)
    if allocated and reserved:
        names = tuple(
            "allocated" if word in _ALLOCATED else "reserved"
            for word in run
            if word in _ALLOCATED or word in _RESERVED
        )
        return Label("pair", True, of_device or memory, unit, names, start, peak)
    if allocated or reserved:
        what = ("max_" if peak else "") + ("allocated" if allocated else "reserved")
        return Label(what, True, of_device or memory, unit, start=start, peak=peak)
    if memory:
        return Label("used", False, of_device, unit, start=start, peak=peak)
    if words <= _PEAK:
        return Label("max", False, False, unit, start=start, peak=True)
    if used and of_device and not peak:
        return Label("used", False, True, unit, start=start)
    return None
