"""What was alive adds up, on every kind of synthetic job and at any moment."""

from __future__ import annotations

import pytest

from oomph.diagnose.snapshot.alive import holders_of, phases_of, pools_of, shares_of
from oomph.diagnose.snapshot.build import analyse
from oomph.evidence.snapshot import from_bytes
from tests.snapshots.every import SCENARIOS


@pytest.mark.parametrize("at", [None, "start", "end", "peak-reserved"])
@pytest.mark.parametrize("name", ["training.logits", "fragmentation.tails", "elsewhere.graph_pool"])
def test_every_division_of_what_was_alive_has_the_same_sum(name: str, at: str | None):
    if name not in SCENARIOS:
        name = next(one for one in SCENARIOS if one.startswith(name.partition(".")[0]))
    made = SCENARIOS[name](1, "all")
    for analysis in analyse(from_bytes(made.pickled("2.13"), "made.pickle"), at):
        in_use = sum(
            block.size
            for segment in analysis.layout
            for block in segment.blocks
            if block.state == "active_allocated"
        )
        assert sum(share.bytes for share in shares_of(analysis)) == in_use
        assert sum(holder.bytes for holder in holders_of(analysis)) == in_use
        assert sum(phases_of(analysis).values()) == in_use
        pools = pools_of(analysis.layout)
        assert sum(pool.reserved_bytes for pool in pools) == sum(one.size for one in analysis.layout)
        assert sum(pool.cached_bytes for pool in pools) >= max(
            (pool.largest_hole_bytes for pool in pools), default=0
        )
