"""The names of facts that a query may ask for, whether or not a run has them."""

from __future__ import annotations

import re
from collections.abc import Collection

from oomph.phases import Phase

#: Families with names of others' choice.
_OPEN = frozenset(
    {
        "arguments",
        "data",
        "environment",
        "git",
        "gpu",
        "machine",
        "model",
        "note",
        "outcomes",
        "rank",
        "tag",
        "versions",
    }
)
_CLOSED = frozenset(
    {
        "alive.added", "alive.before", "alive.between", "attempts", "backward.left", "batch.elements", "batch.length",
        "batch.longest", "batch.rows", "capacity", "command", "command.typed", "device", "exit_code", "failed.phase",
        "failed.rank", "failed.ranks", "failed.request", "failed.step", "forward.kept", "free.least", "growth.per_step",
        "growth.steady", "host", "host.pinned", "host.rss", "id", "name", "oomph", "ooms", "ooms.caught",
        "other_processes", "outcome", "outside", "path", "peak", "peak.phase", "peak.rank", "peak.reserved",
        "ranks.least",
        "ranks.missing", "ranks.spread", "retries", "seconds", "seed", "signal", "started", "steps", "world_size",
    }
)  # fmt: skip
_PHASE = re.compile(
    rf"phase\.(?:{'|'.join(phase.value for phase in Phase)})"
    r"\.(?:peak|peak\.rank|reserved|(?:first|later)\.(?:peak|peak\.rank|within|seconds))\Z"
)


def can_be(name: str, known: Collection[str]) -> bool:
    """Whether a run can have a fact of that name. `known`: those that some run has."""
    if name in known or name in _CLOSED or "*" in name:
        return True
    return ("." in name and name.partition(".")[0] in _OPEN) or _PHASE.match(name) is not None


def like(name: str, known: Collection[str]) -> list[str]:
    """Names that are spelled alike."""
    from difflib import get_close_matches

    return get_close_matches(name[:80], sorted({*known, *_CLOSED}), n=3, cutoff=0.6)
