"""Memory figures in the log lines that people write themselves.

"step 12/100 loss 6.02 mem 61.3 GiB", "reserved=74.9GiB", "alloc 2.10 GiB max 3.40 GiB", "gpu_mem 11.3/24.0 GiB",
"GPU memory: 3.2 GB allocated, 4.1 GB reserved", "host rss 58.1 GiB". A number is taken only where the words beside it
name it (`labels`), and where the line is a job's progress line or speaks of a GPU; everything that may be an estimate,
a file, a limit or a part of an error message is left.

A bare "mem" is read as `used`: such a line does not say whether that is torch's or the device's. "peak mem" on a
progress line is read as max_allocated, which is what training loops print under that name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from oomph.evidence.model import MemorySample
from oomph.evidence.series.amounts import loose
from oomph.evidence.series.labels import Label, label_before
from oomph.evidence.series.scan import Candidate, Scan, step_in
from oomph.units import Amount

_NUMBER = r"[0-9][0-9,]{0,15}(?:\.[0-9]{1,18})?"
_UNIT = r"(?:\s?(?:[KMGT]i?B|bytes|B)|[MG])(?!\w)"
_FIGURE = re.compile(
    rf"(?<![\w.,/])({_NUMBER})({_UNIT})?(?:\s{{0,2}}(?:/|of\b|out of\b)\s{{0,2}}({_NUMBER})({_UNIT}))?(?![\w.]*[0-9])"
)
_LABEL_UNIT = re.compile(r"[_(\[](?:gb|gib|mb|mib|bytes)(?![a-z])")
_AFTER_NAMES = re.compile(r"\s{0,2}\(?(max |peak )?(allocated|alloc|reserved|cached|used|in use)\b")
_AFTER_VETO = re.compile(
    r"\s{0,2}\(?(?:free|avail|buffer|pinned|shared|file|disk|limit|total\b|needed|required|more\b|per\b|/s|headroom"
    r"|is\b|already)"
)

#: Lower-case parts of lines that are messages, estimates, plans or about something else than this job's use.
_VETO = (
    "tried to alloc",
    "out of memory",
    "total capa",
    "memory in use",
    "by pytorch",
    "already allocated",
    "in total by",
    "of the allocated memory",
    "currently allocated",
    "estimat",
    "theoretical",
    "expected",
    "predicted",
    "would ",
    "requir",
    "needs ",
    "needed",
    "at least",
    "kv cache",
    "vllm",
    "sglang",
    "model weights take",
    "utilization (",
    "gpu_memory_utilization",
    "--mem",
    "sbatch",
    "salloc",
    "budget",
)
#: A row of torch.cuda.memory_summary(), which `tables` reads.
_SUMMARY_ROW = re.compile(r"(?:memory|pool|segments|allocs|allocations)\s{0,12}\|\s{0,12}[0-9]")
_DEVICE_WORDS = ("gpu", "cuda", "torch", "vram", "hip:", "xpu")
_PLAIN_WORDS = frozenset(
    {"allocated", "reserved", "cached", "gb", "gib", "mb", "mib", "max", "peak", "current"}
)
_WORD = re.compile(r"[a-z]{2,}")
_MESSAGE = ("tried to alloc", "by pytorch", "total capa")


@dataclass(frozen=True, slots=True)
class _Line:
    """What a line's words say for all of its figures; `progress`: it is one of training or evaluation."""

    lower: str
    figures: int
    progress: bool

    @property
    def of_device(self) -> bool:
        """Does it speak of a GPU or of torch?"""
        return any(word in self.lower for word in _DEVICE_WORDS)

    @property
    def bare(self) -> bool:
        """Are allocated and reserved both named, or is there nothing but names and figures?"""
        if "alloc" in self.lower and any(
            word in self.lower for word in ("reserved", "resv", "rsvd", "cached")
        ):
            return True
        return self.figures <= 4 and all(word in _PLAIN_WORDS for word in _WORD.findall(self.lower))


def read(scan: Scan, claimed: set[int]) -> list[MemorySample]:
    """Samples of all candidate lines whose index is not in `claimed`."""
    found: list[MemorySample] = []
    for line in scan.candidates:
        if line.index not in claimed and not _vetoed(scan, line):
            found.extend(_figures(scan, line))
    return found


def _vetoed(scan: Scan, line: Candidate) -> bool:
    lower = line.lower
    for part in _VETO:
        if part in lower:
            return True
    if "|" in lower and _SUMMARY_ROW.search(lower) is not None:
        return True
    lines = scan.document.lines
    if "cached" in lower and "alloc" not in lower and "mem" not in lower:
        # "Cached: 4.0 GB" is the second line of a report on torch, or the page cache of the host.
        before = lines[max(0, line.index - 2) : line.index]
        return not any("llocated" in near.text for near in before if len(near.text) < 400)
    if "memory" not in lower:
        return False
    around = lines[max(0, line.index - 4) : line.index + 5]
    # A hard-wrapped error message leaves lines such as "allocated memory 20.90 GiB".
    wrapped = any(mark in near.text.lower() for near in around if len(near.text) < 400 for mark in _MESSAGE)
    return wrapped and step_in(line.text) is None


def _figures(scan: Scan, line: Candidate) -> Iterator[MemorySample]:
    unit_in_label = _LABEL_UNIT.search(line.lower) is not None
    matches = [match for match in _FIGURE.finditer(line.text) if unit_in_label or match[2] or match[4]]
    sized = [match for match in matches if match[2] or match[4]]
    number_first = bool(sized) and _is_number_first(line.text, sized[0], _start_of(matches, sized[0]))
    view: _Line | None = None
    end = 0
    last: tuple[str, int] | None = None
    for match in matches:
        label: Label | None
        if number_first:
            label = _label_after(line.text, match)
        else:
            label = label_before(line.text[max(end, match.start() - 60) : match.start()], pair=bool(match[3]))
        previous_end, end = end, match.end()
        if label is None or _AFTER_VETO.match(line.text, match.end()) is not None:
            last = None
            continue
        view = view or _view(scan, line, len(sized))
        name = _name(label, view, last, line.text[previous_end : match.start()])
        if name is None:
            continue
        last = (name, match.end())
        yield from _samples(scan, line, match, label, name)


def _start_of(matches: list[re.Match[str]], wanted: re.Match[str]) -> int:
    before = [match.end() for match in matches if match.end() <= wanted.start()]
    return before[-1] if before else 0


def _is_number_first(text: str, first: re.Match[str], chunk_start: int) -> bool:
    """Is the line "3.2 GB allocated, 4.1 GB reserved" (names behind), not "allocated 3.2 GB reserved 4.1 GB"?"""
    if _AFTER_NAMES.match(text, first.end()) is None:
        return False
    label = label_before(text[max(chunk_start, first.start() - 60) : first.start()], pair=bool(first[3]))
    return label is None or not label.strong


def _label_after(text: str, match: re.Match[str]) -> Label | None:
    named = _AFTER_NAMES.match(text, match.end())
    if named is None or not match[2]:
        return None
    peak = bool(named[1])
    if named[2] in ("used", "in use"):
        return None if peak else Label("used", False, False)
    what = "allocated" if named[2].startswith("alloc") else "reserved"
    return Label(("max_" if peak else "") + what, True, False, peak=peak)


def _view(scan: Scan, line: Candidate, figures: int) -> _Line:
    lower = line.lower
    said = scan.words(line)
    progress = bool(said.context) or "loss" in lower or said.step is not None
    return _Line(lower, figures, progress)


def _name(label: Label, view: _Line, last: tuple[str, int] | None, between: str) -> str | None:
    """What the figure is, after the line had its say; None where it stays unclear."""
    if label.what == "max":
        joined = last is not None and len(between) <= 12
        if not joined or last is None or last[0] not in ("allocated", "reserved"):
            return None
        return f"max_{last[0]}"
    if label.what == "host_used":
        return "host_used"
    if label.what == "used":
        if label.peak:
            return "max_allocated" if view.progress else None
        return "used" if label.of_device or view.progress or view.of_device else None
    if label.of_device or view.progress or view.of_device or view.bare:
        return label.what
    return None


def _samples(
    scan: Scan, line: Candidate, match: re.Match[str], label: Label, name: str
) -> Iterator[MemorySample]:
    unit = (match[2] or match[4] or label.unit or "").strip()
    if not unit:
        return
    value = loose(match[1], unit)
    second = loose(match[3], (match[4] or unit).strip()) if match[3] else None
    if value is None:
        return
    if name == "pair":
        if second is None or len(label.names) != 2:
            return
        prefix = "max_" if label.peak else ""
        yield scan.sample(line, prefix + label.names[0], value, "generic")
        yield scan.sample(line, prefix + label.names[1], second, "generic")
        return
    total: Amount | None = second
    if total is not None and total.high_bytes < value.low_bytes:
        return  # not "used of total"
    yield scan.sample(line, name, value, "generic", total=total)
