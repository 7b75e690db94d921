"""What was alive by category when a request failed, where the run has a memory snapshot of it."""

from __future__ import annotations

from msgspec.structs import replace

from oomph.diagnose.runs.model import RunFacts
from oomph.diagnose.verify.against.categories import recorded_shares, snapshot_of
from oomph.errors import OomphError
from oomph.evidence.run.data import RankData, RunData


def with_categories(facts: RunFacts, data: RunData) -> RunFacts:
    """The facts with `category.NAME`, bytes of each category on the first rank that has a snapshot; as they are where
    none has. Raises nothing: what cannot be read is a note."""
    for rank in _failed_first(data):
        name = snapshot_of(data, rank, rank.ooms[-1])
        if name is None:
            continue
        try:
            shares = recorded_shares(data, name)
        except (OomphError, OSError, ValueError) as error:
            return replace(facts, notes=(*facts.notes, f"{name} cannot be read: {error}"))
        found = {f"category.{category}": size for category, (size, _) in shares.items()}
        return replace(facts, values={**facts.values, **found})
    return facts


def has_snapshot(data: RunData) -> bool:
    """Whether there is something to read."""
    return any(snapshot_of(data, rank, rank.ooms[-1]) is not None for rank in _failed_first(data))


def _failed_first(data: RunData) -> list[RankData]:
    """Ranks with a failed request, those that failed first before the others."""
    first = data.first_failure.ranks if data.first_failure is not None else ()
    failed = [rank for rank in data.ranks.values() if rank.ooms]
    return sorted(failed, key=lambda rank: (rank.rank not in first, rank.rank))
