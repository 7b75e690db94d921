"""One incident with everything a rule may ask about it. Rules read a Case and nothing else."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from oomph.diagnose.incidents import Group
from oomph.diagnose.model import PhaseVerdict
from oomph.diagnose.processes import Neighbours, neighbours
from oomph.diagnose.streams import other_stream
from oomph.evidence.model import Evidence, Fact, Failure, Frame, Kind, MemorySample, Quote
from oomph.memory.ledger import Ledger
from oomph.phases import Phase
from oomph.units import Amount

if TYPE_CHECKING:
    from oomph.diagnose.recorded.model import Recorded
    from oomph.diagnose.snapshot.model import Inside

_LEDGER_NAMES = {
    "capacity_bytes": "capacity_bytes",
    "free_bytes": "free_bytes",
    "allocated_bytes": "allocated_bytes",
    "unallocated_bytes": "cached_bytes",
    "reserved_bytes": "reserved_bytes",
    "process_bytes": "process_bytes",
    "allowed_bytes": "limit_bytes",
    "private_pool_bytes": "private_pool_bytes",
    "requested_bytes": "segment_bytes",
}
#: Printed figures that a record of the same failure does not have.
_BESIDE_RECORDS = frozenset({"limit_bytes", "private_pool_bytes"})


#: After so many lines no further file is searched for words that may stand in any.
_MOST_SEARCHED = 40_000


@dataclass(frozen=True)
class Case:
    """An incident, its phase, its device's ledger and what the log says about the job."""

    evidence: Evidence
    group: Group
    phase_verdict: PhaseVerdict
    inside: Inside | None = None  # what a memory snapshot shows of the device, where one was given
    recorded: Recorded | None = None  # what the run itself recorded of it, where it did

    @property
    def failure(self) -> Failure:
        return self.group.lead

    @property
    def kind(self) -> Kind:
        return self.group.lead.kind

    @property
    def phase(self) -> Phase:
        return self.phase_verdict.phase

    @property
    def rank(self) -> int | None:
        return self.group.rank

    @cached_property
    def neighbours(self) -> Neighbours:
        reserved = Ledger.build(self._printed()).reserved_bytes
        return neighbours(self.evidence, self.group, reserved, "process_bytes" in self._printed())

    @cached_property
    def ledger(self) -> Ledger:
        """The failing device at the moment of the failure, with what the process list adds."""
        printed = self._printed()
        around = self.neighbours
        if self.failure.processes and around.self_bytes is not None and "process_bytes" not in printed:
            printed["process_bytes"] = Amount(around.self_bytes, 0)
        exact = self.recorded.ledger() if self.recorded is not None and self._on_device else {}
        if exact:
            # What was printed besides was derived from these by rounding, or by another clock.
            printed = {name: size for name, size in printed.items() if name in _BESIDE_RECORDS}
            printed.update(exact)
        ledger = Ledger.build(printed)
        if self.failure.format != "snapshot" and not exact:
            return ledger
        recorded = exact.keys() if exact else printed.keys()
        told = {
            name: "recorded" if how == "printed" and name in recorded else how
            for name, how in ledger.origins.items()
        }
        return replace(ledger, origins=told)

    @property
    def _on_device(self) -> bool:
        return self.kind in (Kind.DEVICE_OOM, Kind.DEVICE_OOM_BARE, Kind.UNIFIED_OOM)

    def _printed(self) -> dict[str, Amount]:
        printed: dict[str, Amount] = {}
        if self.kind in (Kind.DEVICE_OOM, Kind.UNIFIED_OOM):
            for name, field in _LEDGER_NAMES.items():
                size = self.failure.numbers.get(name)
                if size is not None:
                    printed[field] = size
        if "damaged_size" in self.failure.artefacts and not self.request_bytes:
            printed.pop("segment_bytes", None)
        if "process_0_bytes" in self.failure.artefacts:
            printed.pop("process_bytes", None)
        return printed

    @property
    def request_bytes(self) -> int | None:
        """What the message says was asked for: the segment."""
        size = self.failure.numbers.get("requested_bytes")
        return size.bytes if size is not None else None

    @cached_property
    def frames(self) -> tuple[Frame, ...]:
        return self.group.traceback.frames if self.group.traceback is not None else ()

    @property
    def last_frame(self) -> Frame | None:
        return self.frames[-1] if self.frames else None

    def frame_matching(self, pattern: re.Pattern[str], *, innermost: int = 1000) -> Frame | None:
        """The deepest of the `innermost` frames whose file, function or code (under the carets) matches."""
        for frame in reversed(self.frames[-innermost:]):
            if pattern.search(f"{frame.file} {frame.function} {frame.span or frame.code}"):
                return frame
        return None

    def fact(self, name: str) -> Fact | None:
        """The last fact of this name that stands before the failure, else the first one anywhere."""
        found: Fact | None = None
        for fact in self.evidence.facts_named(name):
            if found is None or fact.position <= self.group.start:
                found = fact
        return found

    def number(self, name: str) -> int | None:
        """A fact's value as an integer, None when it is not printed or not one."""
        fact = self.fact(name)
        return int(fact.value) if fact is not None and fact.value.isdigit() else None

    def flag(self, name: str) -> bool | None:
        fact = self.fact(name)
        if fact is None:
            return None
        return {"true": True, "false": False}.get(fact.value.lower())

    @cached_property
    def alloc_conf(self) -> str:
        """The allocator settings that the log shows, "" when it shows none."""
        fact = self.fact("alloc_conf")
        return fact.value if fact is not None else ""

    @property
    def expandable_segments(self) -> bool:
        return (
            re.search(r"expandable_segments['\"]?\s*[:=]\s*['\"]?True", self.alloc_conf, re.IGNORECASE)
            is not None
        )

    @cached_property
    def platform(self) -> str:
        fact = self.fact("platform")
        return fact.value if fact is not None else ""

    def samples(self, *what: str) -> Sequence[MemorySample]:
        """Figures of this rank (or of no named rank) in the failure's file, printed before the failure.

        Where that file has none, those of the process's other stream: what it printed there, it printed before it died.
        """
        return (
            self._samples_before(what) or self._samples_of_other_stream(what) or self._samples_recorded(what)
        )

    def _samples_recorded(self, what: Sequence[str]) -> Sequence[MemorySample]:
        """Those of the rank's own records, which end with it."""
        if self.recorded is None:
            return []
        document = self.recorded.document
        return [
            one for one in self.evidence.samples if one.what in what and one.position.document == document
        ]

    def _samples_of_other_stream(self, what: Sequence[str]) -> Sequence[MemorySample]:
        other = other_stream(self.evidence, self.group.start.document)
        if other is None:
            return []
        return [one for one in self.evidence.samples if one.what in what and one.position.document == other]

    def _samples_before(self, what: Sequence[str]) -> Sequence[MemorySample]:
        start = self.group.start
        return [
            sample
            for sample in self.evidence.samples
            if sample.what in what
            and sample.position.document == start.document
            and sample.position.line <= start.line
            and (sample.rank is None or self.rank is None or sample.rank == self.rank)
        ]

    def text_before(self, pattern: re.Pattern[str], *, last: int = 4000) -> Quote | None:
        """The last line before the failure that matches, as a quote."""
        document = self.evidence.documents[self.group.start.document]
        low = max(0, self.group.start.line - last)
        for index in range(self.group.start.line, low - 1, -1):
            if pattern.search(document.lines[index].text):
                return document.quote(index)
        return None

    def text_anywhere(self, pattern: re.Pattern[str]) -> Quote | None:
        """The first line of any input that matches, as a quote. Of many files the first ones are searched, and the
        failure's own: the ranks of a job say the same."""
        searched = 0
        for document in self.evidence.documents:
            if searched > _MOST_SEARCHED and document.index != self.group.start.document:
                continue
            searched += len(document.lines)
            for index, line in enumerate(document.lines):
                if pattern.search(line.text):
                    return document.quote(index)
        return None
