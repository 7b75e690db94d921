"""Records beside evidence: which record belongs to which printed failure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from oomph.evidence.model import Position
from oomph.evidence.run.data import RankData, RunData
from oomph.evidence.run.model import OomRecord
from oomph.memory.ledger import PRINTED
from oomph.units import Amount


@dataclass(frozen=True)
class Recorded:
    """The rank that a failure belongs to, its failed request where it recorded one, and the document of its records."""

    run: RunData
    rank: RankData
    document: int
    oom: OomRecord | None = None

    @property
    def caught(self) -> bool:
        """Whether the rank went on after it, by its records."""
        return self.oom is not None and self.oom is not self.rank.oom

    def ledger(self) -> dict[str, Amount]:
        """What was recorded when the request failed, in the names of a ledger; exact."""
        oom = self.oom
        if oom is None:
            return {}
        counters, header = oom.counters, self.rank.header
        capacity = counters.total_bytes or (header.capacity_bytes if header is not None else None)
        sizes = {
            "capacity_bytes": capacity,
            "free_bytes": counters.free_bytes,
            "allocated_bytes": counters.allocated_bytes,
            "reserved_bytes": counters.reserved_bytes,
            "outside_bytes": counters.outside_bytes,
            "other_processes_bytes": counters.other_processes_bytes,
            "segment_bytes": oom.request_bytes,
        }
        if counters.outside_bytes is not None:
            sizes["process_bytes"] = counters.outside_bytes + counters.reserved_bytes
        known = {name: Amount(size) for name, size in sizes.items() if size is not None and size >= 0}
        assert known.keys() <= set(PRINTED)
        return known


@dataclass(frozen=True)
class Records:
    """The runs among the input. `failures` has what was recorded of each failure, by the position of its print;
    `documents` the document of each rank's records, by (index of the run, rank)."""

    runs: tuple[RunData, ...]
    failures: Mapping[Position, Recorded] = field(default_factory=dict)
    documents: Mapping[tuple[int, int], int] = field(default_factory=dict)

    @property
    def first(self) -> int | None:
        """The rank that failed first, where the records say which."""
        for run in self.runs:
            if run.first_failure is not None:
                ranks = run.first_failure.ranks
                return ranks[0] if len(ranks) == 1 else None
        return None
