"""Free memory in lists that the request may not use."""

from __future__ import annotations

from oomph.diagnose.case import Case
from oomph.diagnose.rules.base import Match, Rule
from oomph.evidence.model import Kind


class OtherPool(Rule):
    """See the class attributes: they are the rule's documentation."""

    code = "OOM302"
    cause = "other_pool_or_stream"
    name = "free-memory-is-in-another-pool"
    means = (
        "PyTorch keeps free blocks apart by stream, by size (up to 1 MiB and above) and by private pool (a "
        "CUDA graph, a MemPool). Enough was free, but in lists that this request may not use, beside blocks "
        "that keep their segments from being given back."
    )
    decisive_evidence = (
        "A memory snapshot: the free pieces of the request's own list and what the driver had could not hold "
        "it; with those of the other lists they could."
    )
    first_action = (
        "Allocate on one stream (copies and prefetching on side streams keep their own cache), or let fewer "
        "CUDA graphs hold a pool."
    )
    verify = "`oomph snapshot` of the next run shows little cached memory outside the request's own pool."
    wrong_advice = "empty_cache(): what was wholly free had been given back before the request failed."
    actions = ("one-stream", "compile-without-graphs", "expandable-segments")

    def check(self, case: Case) -> Match | None:
        inside = case.inside
        failure = inside.failure if inside is not None else None
        if case.kind is not Kind.DEVICE_OOM or inside is None or failure is None:
            return None
        if str(failure.verdict) != "other pool or stream holds it":
            return None
        private = any(pool.pool != (0, 0) and pool.cached_bytes for pool in inside.device.pools)
        several = any(
            pool.stream != failure.stream and pool.cached_bytes
            for pool in inside.device.pools
            if pool.pool == (0, 0)
        )
        actions = [
            *(("one-stream",) if several else ()),
            *(("compile-without-graphs",) if private else ()),
            # Between the large and the small pool of one stream, pages that are mapped can move, segments cannot.
            *(("expandable-segments",) if not several and not private else ()),
        ]
        return Match(
            failure.certainty,
            "The memory snapshot shows it: " + failure.says,
            weight=0.9,
            numbers={
                "cached_bytes": failure.cached_bytes,
                "cached_own_bytes": failure.cached_own_bytes,
                "request_bytes": failure.request_bytes,
            },
            actions=tuple(actions),
        )
