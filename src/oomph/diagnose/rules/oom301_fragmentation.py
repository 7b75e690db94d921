"""Cached memory that does not fit the request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oomph.diagnose.case import Case
from oomph.diagnose.model import Certainty, RuledOut
from oomph.diagnose.rules.base import Match, Rule
from oomph.evidence.model import Kind
from oomph.units import MIB, format_bytes

if TYPE_CHECKING:
    from oomph.diagnose.snapshot.model import Failure as RecordedFailure

#: cached / reserved from which fragmentation is likely (docs/decisions/0004 argues it with cases on both sides).
LIKELY_RATIO = 0.18
#: The cache must be able to hold (nearly) all of the request: printed numbers are rounded, and rounding up to a
#: segment adds up to 2 MiB.
HOLDS = 0.95
#: What the small pool asks of the driver; only requests up to 1 MiB print it, and the large pool cannot serve them.
SMALL_SEGMENT = 2 * MIB


class Fragmentation(Rule):
    """See the class attributes: they are the rule's documentation."""

    code = "OOM301"
    cause = "fragmentation"
    name = "cached-memory-is-in-pieces"
    means = (
        "PyTorch had reserved enough memory that it did not use, but no single free block was large enough, "
        "and blocks that are partly in use cannot be given back. Varying shapes make it so."
    )
    decisive_evidence = (
        "`reserved but unallocated` could hold the request and is a considerable share of what is reserved. "
        "Low cached memory rules it out; a request larger than all of it too."
    )
    first_action = (
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True (Linux, not WSL2 or Jetson); where it is on or cannot be, "
        "fixed or bucketed shapes, and the largest shape first."
    )
    verify = (
        "reserved minus allocated at the same step falls, and num_alloc_retries in memory_stats() stays 0."
    )
    wrong_advice = (
        "Repeating a hint that is already set, max_split_size_mb without measuring, and empty_cache(): PyTorch had "
        "freed what it could before it failed."
    )
    actions = ("expandable-segments", "fixed-shapes")

    def check(self, case: Case) -> Match | RuledOut | None:
        if case.kind is not Kind.DEVICE_OOM:
            return None
        if case.inside is not None and case.inside.failure is not None:
            return self._by_snapshot(case, case.inside.failure)
        ledger = case.ledger
        cached, request, ratio = ledger.cached_bytes, case.request_bytes, ledger.cached_ratio
        if cached is None or not request or ratio is None:
            return None
        if cached < HOLDS * request:
            return self._with_free(case, cached, request, ratio)
        numbers = {"cached_bytes": cached, "request_bytes": request}
        says = (
            f"{format_bytes(cached)} were reserved and unused ({ratio:.0%} of what is reserved), more than the "
            f"{format_bytes(request)} asked for, and no free block was large enough"
        )
        if case.expandable_segments:
            return Match(
                Certainty.POSSIBLE,
                says + "; expandable segments are already on, so look at the shapes.",
                weight=0.4 + 0.5 * min(1.0, ratio),
                numbers=numbers,
                actions=("fixed-shapes", "collect-snapshot"),
            )
        if request <= SMALL_SEGMENT:
            return Match(
                Certainty.LIKELY if ratio >= LIKELY_RATIO else Certainty.POSSIBLE,
                f"{format_bytes(cached)} were reserved and unused, but this request is of the small pool (1 MiB or "
                "less), which the large pool's cache cannot serve.",
                weight=0.6 if ratio >= LIKELY_RATIO else 0.2,
                numbers=numbers,
            )
        if ratio >= LIKELY_RATIO:
            return Match(Certainty.LIKELY, says + ".", weight=0.66 + 0.34 * min(1.0, ratio), numbers=numbers)
        return Match(
            Certainty.POSSIBLE,
            says + "; but a cache of this share is ordinary.",
            weight=0.2 + ratio,
            numbers=numbers,
            actions=("micro-batch", "checkpointing", "expandable-segments"),
        )

    def _by_snapshot(self, case: Case, failure: RecordedFailure) -> Match | RuledOut | None:
        """The snapshot shows every free piece, so nothing has to be told from sums."""
        if str(failure.verdict) != "fragmented":
            reasons = [one for one in failure.ruled_out if one.cause == "fragmentation"]
            return RuledOut(self.cause, reasons[0].why) if reasons else None
        places = dict.fromkeys(
            f"{pin.place.function} ({pin.place.file}:{pin.place.line})"
            for pin in failure.pins
            if pin.place is not None
        )
        says = "The memory snapshot shows it: " + failure.says
        if places:
            says += f" Between the largest pieces lie blocks of {', '.join(list(places)[:3])}."
        return Match(
            failure.certainty,
            says,
            weight=0.9 if failure.certainty is not Certainty.POSSIBLE else 0.4,
            numbers={
                "cached_bytes": failure.cached_own_bytes,
                "largest_hole_bytes": failure.hole_bytes,
                "request_bytes": failure.request_bytes,
            },
            actions=("fixed-shapes",) if case.expandable_segments else self.actions,
        )

    def _with_free(self, case: Case, cached: int, request: int, ratio: float) -> Match | RuledOut:
        """The cache alone could not hold it; the cache and what is free might, were it in one piece."""
        free = case.ledger.free_bytes or 0
        if ratio < LIKELY_RATIO or cached + free < request or case.expandable_segments:
            return RuledOut(
                self.cause, f"all {format_bytes(cached)} cached could not hold {format_bytes(request)}"
            )
        return Match(
            Certainty.POSSIBLE,
            f"{format_bytes(cached)} cached ({ratio:.0%} of what is reserved) and {format_bytes(free)} free would "
            f"together hold the {format_bytes(request)} that were asked for; neither does alone.",
            weight=0.5,
            numbers={"cached_bytes": cached, "free_bytes": free, "request_bytes": request},
        )
