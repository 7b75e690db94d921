"""A limit, not consumption."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oomph.diagnose.case import Case
from oomph.diagnose.model import Certainty, RuledOut
from oomph.diagnose.rules.base import Match, Rule
from oomph.evidence.model import Kind
from oomph.units import GIB, format_bytes

if TYPE_CHECKING:
    from oomph.diagnose.snapshot.model import Failure as RecordedFailure


class CapOrDriverLimit(Rule):
    """See the class attributes: they are the rule's documentation."""

    code = "OOM104"
    cause = "cap_or_driver_limit"
    name = "a-limit-refused-the-request"
    means = (
        "The card had room and the request was refused all the same: a memory fraction set by the program, a "
        "limit on single allocations, a virtual GPU's or a driver's limit."
    )
    decisive_evidence = (
        "The message prints `X allowed` (or a cudaMallocAsync limit that is a real size) and what PyTorch holds plus "
        "the request exceeds it; or free memory is far above the request. A margin of a few hundred MiB proves "
        "nothing: free is read after the failure."
    )
    first_action = (
        "Remove or raise the cap (set_per_process_memory_fraction); without one, look at the driver or VM."
    )
    verify = "The message no longer prints `allowed`, and torch.cuda.mem_get_info() agrees with the board."
    wrong_advice = "A smaller batch: memory was not what ran out."
    actions = ("remove-cap", "driver-limit")

    def check(self, case: Case) -> Match | RuledOut | None:
        if case.failure.detail.get("cap"):
            return Match(
                Certainty.CERTAIN,
                (
                    "The allocation was rejected before it was tried, because it would exceed "
                    "per_process_memory_fraction."
                ),
                weight=0.95,
            )
        if case.kind is not Kind.DEVICE_OOM:
            return None
        request = case.request_bytes
        if request is None:
            return None
        by_limit = self._by_limit(case, request)
        if by_limit is None and case.inside is not None and case.inside.failure is not None:
            return self._by_snapshot(case.inside.failure)
        return by_limit or self._by_free(case, request)

    def _by_snapshot(self, failure: RecordedFailure) -> Match | RuledOut | None:
        if str(failure.verdict) != "capped":
            reasons = [one for one in failure.ruled_out if one.cause == "cap"]
            return RuledOut(self.cause, reasons[0].why) if reasons else None
        return Match(
            failure.certainty,
            "The memory snapshot shows it: " + failure.says,
            weight=0.95 if failure.certainty is not Certainty.POSSIBLE else 0.5,
            numbers={"free_bytes": failure.free_bytes or 0, "request_bytes": failure.request_bytes},
            actions=("remove-cap", "driver-limit"),
        )

    def _by_limit(self, case: Case, request: int) -> Match | RuledOut | None:
        ledger = case.ledger
        limit = ledger.limit_bytes
        if limit is None:
            return None
        held = ledger.reserved_bytes if ledger.reserved_bytes is not None else ledger.allocated_bytes
        capacity = ledger.capacity_bytes
        free = ledger.free_bytes
        if held is not None and held + request < limit - GIB:
            return RuledOut(
                self.cause,
                f"{format_bytes(limit)} are allowed, {format_bytes(held + request)} were asked in all",
            )
        if free is not None and free < request and capacity is not None and limit >= 0.98 * capacity:
            return RuledOut(self.cause, f"the limit ({format_bytes(limit)}) is the whole card")
        says = f"This process may use {format_bytes(limit)}"
        if capacity is not None:
            says += f" of the card's {format_bytes(capacity)}"
        if free is not None:
            says += f"; {format_bytes(free)} were free"
        return Match(
            Certainty.CERTAIN,
            says + f" when {format_bytes(request)} were refused.",
            weight=0.95,
            numbers={"limit_bytes": limit, "request_bytes": request},
            actions=("remove-cap",),
        )

    def _by_free(self, case: Case, request: int) -> Match | RuledOut | None:
        ledger = case.ledger
        capacity = ledger.capacity_bytes or 0
        free = ledger.free_bytes
        if free is None:
            if case.failure.vendor != "xpu" or ledger.reserved_bytes is None or not capacity:
                return None
            free = capacity - ledger.reserved_bytes
        margin = max(GIB, capacity // 32)
        if free - request <= margin:
            if free > request:
                return RuledOut(
                    self.cause,
                    f"free ({format_bytes(free)}) exceeds the request by only {format_bytes(free - request)}; "
                    "free is read after the failure",
                )
            return None
        single = case.failure.vendor == "xpu" and request >= 4 * GIB
        return Match(
            Certainty.LIKELY,
            f"{format_bytes(free)} of {format_bytes(capacity)} were not in use when "
            f"{format_bytes(request)} were refused: "
            + (
                "a limit on the size of one allocation."
                if single
                else "a limit of the driver, the VM or the container."
            ),
            weight=0.95,
            numbers={"free_bytes": free, "request_bytes": request},
            actions=("split-tensor", "driver-limit") if single else ("driver-limit",),
        )
