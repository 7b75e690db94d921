"""Indexes over the evidence: what stands before or behind a line, without a walk over the log for every failure.

A log may hold thousands of failures, tracebacks, exits and steps. Whatever is asked for each failure is answered here
by bisection; each index is built once (`Evidence.derived`).
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Sequence

from oomph.evidence.model import Evidence, Fact, Position, Traceback

_LAUNCHER = re.compile(r"ChildFailedError|CalledProcessError|SystemExit|ProcessRaisedException")


def line_of(fact: Fact) -> int:
    """The line index of a fact, as a key for sorting and bisection."""
    return fact.position.line


def last_before(facts: Sequence[Fact], line: int) -> Fact | None:
    """The last of `facts` (of one document, in line order) at or before `line`."""
    at = bisect_right(facts, line, key=line_of)
    return facts[at - 1] if at else None


def step_of(fact: Fact) -> int | None:
    """The number of a step's line, None where it prints none."""
    return int(fact.value) if fact.value.isdecimal() else None


class _Steps:
    """Progress lines of one document and one rank: with running totals, so that a prefix needs no walk."""

    def __init__(self, facts: Sequence[Fact]) -> None:
        self.facts = facts
        self._highest: list[int] = []
        highest = -1
        for fact in facts:
            number = step_of(fact)
            highest = highest if number is None else max(highest, number)
            self._highest.append(highest)

    def before(self, line: int) -> tuple[int, int]:
        """How many stand at or before `line`, and the highest step among them (-1: none has a number)."""
        count = bisect_right(self.facts, line, key=line_of)
        return count, self._highest[count - 1] if count else -1


class Progress:
    """The progress lines of the input, by document and by the rank that printed them."""

    def __init__(self, evidence: Evidence) -> None:
        by_rank: dict[tuple[int, int | None], list[Fact]] = defaultdict(list)
        by_document: dict[int, list[Fact]] = defaultdict(list)
        for fact in evidence.facts_named("progress"):
            by_rank[fact.position.document, fact.rank].append(fact)
            by_document[fact.position.document].append(fact)
        self._by_rank = {key: _Steps(facts) for key, facts in by_rank.items()}
        self._all = {key: _Steps(facts) for key, facts in by_document.items()}
        self._ranks: dict[int, set[int]] = defaultdict(set)
        for document, rank in by_rank:
            if rank is not None:
                self._ranks[document].add(rank)

    def of(self, document: int, rank: int | None) -> Sequence[_Steps]:
        """The lines that `rank` may have printed: its own and those of no rank; without a rank, all."""
        if rank is None:
            return [self._all[document]] if document in self._all else []
        return [self._by_rank[document, one] for one in (rank, None) if (document, one) in self._by_rank]

    def before(self, at: Position, rank: int | None) -> tuple[int, int]:
        """How many progress lines of `rank` stand at or before `at`, and the highest step among them (-1: none)."""
        counted = [steps.before(at.line) for steps in self.of(at.document, rank)]
        return sum(count for count, _ in counted), max((highest for _, highest in counted), default=-1)

    def last_before(self, at: Position, rank: int | None) -> Fact | None:
        """The last progress line of `rank` at or before `at`."""
        found = [last_before(steps.facts, at.line) for steps in self.of(at.document, rank)]
        return max((fact for fact in found if fact is not None), key=line_of, default=None)

    def between(self, document: int, low: int, high: int) -> int:
        """How many progress lines stand between two lines, both excluded."""
        facts = self._all[document].facts if document in self._all else ()
        return max(0, bisect_left(facts, high, key=line_of) - bisect_right(facts, low, key=line_of))

    def several_ranks(self, document: int) -> bool:
        """True when progress lines of more than one rank stand in the document."""
        return len(self._ranks[document]) > 1


class Exits:
    """Where launchers say that processes failed."""

    def __init__(self, evidence: Evidence) -> None:
        self.ranks_by_pid: dict[str, tuple[int, int]] = {}
        self.rank_by_device: dict[int, int] = {}
        self._failed: dict[int, int] = {}
        self._blamed: dict[tuple[int, int | None], int] = {}
        self._blamed_any: dict[int, int] = {}
        for order, found in enumerate(evidence.exits):
            document, line = found.position.document, found.position.line
            if found.rank is not None and found.pid is not None:
                self.ranks_by_pid.setdefault(str(found.pid), (order, found.rank))
            if found.code in (0, None):
                continue
            self._failed[document] = max(line, self._failed.get(document, -1))
            if found.code == -15:
                continue
            if found.rank is not None and found.local_rank is not None:
                self.rank_by_device.setdefault(found.local_rank, found.rank)
            if found.killer != "launcher":
                key = (document, found.rank)
                self._blamed[key] = max(line, self._blamed.get(key, -1))
                self._blamed_any[document] = max(line, self._blamed_any.get(document, -1))

    def last_failed(self, document: int) -> int:
        """The last line of a document that says that a process failed; -1 without one."""
        return self._failed.get(document, -1)

    def last_blamed(self, document: int, rank: int | None) -> int:
        """The last line that says that `rank` (or an unnamed one) failed by itself; -1 without one."""
        if rank is None:
            return self._blamed_any.get(document, -1)
        return max(self._blamed.get((document, rank), -1), self._blamed.get((document, None), -1))


class Tracebacks:
    """Tracebacks by the writer that printed them, in line order."""

    def __init__(self, evidence: Evidence) -> None:
        by_writer: dict[tuple[int, str], list[Traceback]] = defaultdict(list)
        for traceback in evidence.tracebacks:
            by_writer[traceback.start.document, traceback.stream].append(traceback)
        self._by_writer = dict(by_writer)
        self._last_error: dict[tuple[int, str], int] = {}
        for key, tracebacks in by_writer.items():
            own = [one for one in tracebacks if one.exception and not _LAUNCHER.search(one.exception)]
            self._last_error[key] = own[-1].start.line if own else -1

    def around(self, at: Position, stream: str) -> Sequence[Traceback]:
        """The tracebacks of a writer that hold `at` between their first and their last line."""
        return self.near(at, stream, before=0, behind=0)

    def near(self, at: Position, stream: str, *, before: int, behind: int) -> Sequence[Traceback]:
        """The tracebacks of a writer that end at most `before` lines before `at` and start at most `behind` lines
        behind it. (A writer's tracebacks follow each other: starts and ends both rise.)"""
        found = self._by_writer.get((at.document, stream), [])
        low = bisect_left(found, at.line - before, key=lambda one: one.end.line)
        high = bisect_right(found, at.line + behind, key=lambda one: one.start.line)
        return found[low:high]

    def last_error(self, document: int, stream: str) -> int:
        """Where a writer's last traceback of an error of its own starts (no launcher's); -1 without one."""
        return self._last_error.get((document, stream), -1)
