"""One walk over the lines: which may hold a memory figure, and what else such a line says.

A printer's parser asks `Scan.having(needle)` for its lines and makes its samples with `Scan.sample`, which fills in
rank, time, step, device and context from the same line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeVar

from oomph.evidence.model import Document, MemorySample, Position, Quote
from oomph.units import Amount

T = TypeVar("T")

#: Longer lines are data, not log lines; only their beginning is read.
MAX_CHARS = 4000

_N = r"([0-9]{1,12})(?![0-9]|\.[0-9])"
_STEP = re.compile(
    r"(?<![\w.])(?:global_?step(?:/max_steps)?|steps?|iterations?|iters?|it)['\"]?\s{0,4}[:=#]?\s{0,4}['\"\[(]?\s{0,10}"
    + _N
    + r"(?!\s?m?s\b)",
    re.IGNORECASE,
)
_BRACKET = re.compile(r"\[\s{0,10}([0-9]{1,12})\s{0,3}/\s{0,3}[0-9]{1,12}\s{0,3}\]")
_EPOCH_BEFORE = re.compile(r"(?:epoch|train|test|val)s?\s{0,3}:?\s{0,3}\Z", re.IGNORECASE)
_EVAL_PROGRESS = re.compile(
    r"(?<![\w/.])(?:val|valid|validation|eval|evaluation|test)\s{0,3}:?\s{0,3}\[?([0-9]{1,12})/[0-9]{1,12}(?![0-9.])",
    re.IGNORECASE,
)
_TQDM = re.compile(r"(?<![\w/.])([0-9]{1,12})/[0-9]{1,12} \[[0-9?:]{1,12}<")
_CONTEXT = re.compile(
    r"(?<![\w/.-])(?:(val|valid|validation|validating|eval|evaluating|evaluation|test|testing)"
    r"|train|training|steps?|iters?|iterations?|epochs?|it(?=\s{1,4}[0-9]))(?!\w|\.py)",
    re.IGNORECASE,
)
_DEVICE = re.compile(
    r"(?<![\w.])(?:cuda:|xpu:|GPU[ :#]?|device(?: |=|: ?))([0-9]{1,3})(?![0-9]*[.,]?[0-9%]|\s{0,2}(?:[KMGT]i?B?|x|%)\b)"
)
#: "gpu_mb" in the header of a table.
_GPU_COLUMN = re.compile(r"(?:gpu|cuda)[0-9]{0,3}[_ (\[]{1,2}[mg]i?b[)\]]?[\"']?(?:[,;|\t]|\Z)")
_RANK = re.compile(r"(?:^|[\[\](|<])\s{0,3}rank[\s:=_]{0,2}([0-9]{1,6})\s{0,3}(?:[\])|>:,]|$)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A line that may hold a figure: its index, its text (at most `MAX_CHARS`), the same in lower case."""

    index: int
    text: str
    lower: str


@dataclass(frozen=True, slots=True)
class Words:
    """What a line says beside its figures."""

    step: int | None
    context: str
    device: int | None
    rank: int | None
    quote: Quote


class Scan:
    """The candidate lines of one document: `unthinned`, and the `candidates` among them that are read (see `limit`)."""

    def __init__(self, document: Document, limit: int | None = None) -> None:
        self.document = document
        self.limit = limit
        self.unthinned = list(_candidates(document))
        self.candidates = thinned(self.unthinned, limit)
        self._words: tuple[int, Words] | None = None  # of the line that was asked for last

    def having(self, *needles: str) -> Iterator[Candidate]:
        """Candidates whose lower-case text has at least one of `needles`."""
        for candidate in self.candidates:
            lower = candidate.lower
            for needle in needles:
                if needle in lower:
                    yield candidate
                    break

    def sample(
        self,
        line: Candidate,
        what: str,
        value: Amount,
        printer: str,
        *,
        step: int | None = None,
        rank: int | None = None,
        total: Amount | None = None,
        context: str | None = None,
    ) -> MemorySample:
        """A sample of this line; `step`, `rank` and `context` override what the line's words say."""
        words = self.words(line)
        source = self.document.lines[line.index]
        if rank is None:
            rank = source.rank if source.rank is not None else self.document.rank
        return MemorySample(
            what=what,
            value=value,
            position=Position(self.document.index, line.index),
            quote=words.quote,
            step=words.step if step is None else step,
            rank=words.rank if rank is None else rank,
            device=words.device,
            total=total,
            time=source.time,
            printer=printer,
            context=words.context if context is None else context,
        )

    def words(self, line: Candidate) -> Words:
        """Step, context, device, rank and quote of a line, worked out once for all of its figures."""
        if self._words is None or self._words[0] != line.index:
            text = line.text
            words = Words(
                step_in(text),
                context_in(text),
                device_in(text),
                rank_in(text),
                self.document.quote(line.index),
            )
            self._words = (line.index, words)
        return self._words[1]


def thinned(candidates: list[T], limit: int | None) -> list[T]:
    """About `limit` candidates: the first and the last ones, and the others evenly (a figure that stands on every
    line says the same from every tenth)."""
    if limit is None or len(candidates) <= limit:
        return candidates
    edge = max(1, limit // 4)
    middle = candidates[edge:-edge]
    step = -(-len(middle) // max(1, limit - 2 * edge))
    return [*candidates[:edge], *middle[::step], *candidates[-edge:]]


def _candidates(document: Document) -> Iterator[Candidate]:
    for index, line in enumerate(document.lines):
        text = line.text
        lower = text.lower()
        # A line without any of these holds no figure that a parser here reads ("G  " is YOLO's column). Written out:
        # this test is all that most lines of a log cost.
        if (
            "mem" in lower
            or "alloc" in lower
            or "reserv" in lower
            or "rss" in lower
            or "vram" in lower
            or "cached" in lower
            or "gb_free" in lower
            or "max_ma" in lower
            or "G  " in text
            or ("gpu" in lower and _GPU_COLUMN.search(lower) is not None)
        ):
            if len(text) > MAX_CHARS:
                text = text[:MAX_CHARS]
                lower = text.lower()
            yield Candidate(index, text, lower)


def step_in(text: str) -> int | None:
    """The step or iteration number that a log line prints, as printed (many printers restart it every epoch)."""
    match = _STEP.search(text) or _EVAL_PROGRESS.search(text)
    if match is not None:
        return int(match[1])
    last = None
    for bracket in _BRACKET.finditer(text):
        if last is None or bracket.start() - last.end() <= 3:
            last = bracket
    if last is not None and _EPOCH_BEFORE.search(text[: last.start()][-12:]) is None:
        return int(last[1])
    match = _TQDM.search(text)
    return int(match[1]) if match is not None else None


def context_in(text: str) -> str:
    """Whether a line is about "eval" or "train" (or ""), by the first word that says which."""
    match = _CONTEXT.search(text)
    if match is None:
        return "eval" if "eval_" in text else ""
    return "eval" if match[1] else "train"


def device_in(text: str) -> int | None:
    """The device index that a line names ("cuda:2", "GPU 3"), if it names exactly one."""
    found = {int(number) for number in _DEVICE.findall(text)}
    return found.pop() if len(found) == 1 else None


def rank_in(text: str) -> int | None:
    """The rank in a prefix such as "[Rank 3]" or "| rank3 |"; never a LoRA rank in the middle of a sentence."""
    match = _RANK.search(text)
    return int(match[1]) if match is not None else None
