"""Another process holds the card."""

from __future__ import annotations

from oomph.diagnose.case import Case
from oomph.diagnose.model import Certainty, RuledOut
from oomph.diagnose.rules.base import Match, Rule
from oomph.evidence.model import Kind, Quote
from oomph.units import GIB, format_bytes

#: Memory outside PyTorch's allocator that a context, NCCL and a desktop explain (docs/decisions/0004).
ORDINARY_OUTSIDE = int(2.5 * GIB)
#: A named stranger below this is a bare context or a desktop.
SMALL_NEIGHBOUR = 1 * GIB

#: Origins of a figure that was read and not derived.
_READ = ("printed", "recorded")


class OtherProcess(Rule):
    """See the class attributes: they are the rule's documentation."""

    code = "OOM101"
    cause = "other_process"
    name = "another-process-holds-the-card"
    means = (
        "A process that does not belong to this job holds memory of the card: an earlier run that never died, a "
        "notebook kernel, another user's job, a desktop. The job itself may be of the right size."
    )
    decisive_evidence = (
        "A `Process N has X memory in use` clause with a pid that is neither this process nor one of its ranks, or an "
        "nvidia-smi table that lists it; or PyTorch reserved far less than the card has and free memory does not make "
        "up for it (the number alone is never certain: libraries of the process itself count in it)."
    )
    first_action = "Find the process and stop it, or take another card; then run the job again unchanged."
    verify = (
        "nvidia-smi shows the memory as free before the start, and the unchanged job passes the same point."
    )
    wrong_advice = (
        "A smaller batch. It may even work, and then hides that part of the card is gone. Also not every listed pid "
        "is a stranger: a lone `Process N` without a `this process` clause is usually the job seen from a container."
    )
    actions = ("stop-process", "collect-smi")

    def check(self, case: Case) -> Match | RuledOut | None:
        if case.kind in (Kind.DEVICE_OOM_BARE, Kind.DISGUISED, Kind.NCCL_OOM):
            return self._by_smi(case)
        if case.kind is not Kind.DEVICE_OOM:
            return None
        foreign = case.neighbours.of("foreign")
        held = case.neighbours.bytes_of("foreign")
        if foreign and held >= SMALL_NEIGHBOUR:
            return self._named(case, held)
        return self._by_difference(case)

    def _named(self, case: Case, held: int) -> Match:
        foreign = case.neighbours.of("foreign")
        ledger = case.ledger
        if (
            len(case.failure.processes) == 1
            and ledger.reserved_bytes is None
            and ledger.process_bytes is None
        ):
            return Match(
                Certainty.POSSIBLE,
                f"Process {foreign[0].pid} holds {format_bytes(held)}; the message is cut before this process's own "
                "figures, so it may be this very process.",
                weight=0.1,
                numbers={"other_processes_bytes": held},
            )
        who = ", ".join(
            f"process {one.pid} ({format_bytes(one.used_bytes)})" for one in foreign if one.used_bytes
        )
        request = case.request_bytes or 0
        room = held + (ledger.free_bytes or 0)
        capacity = ledger.capacity_bytes or 0
        enough = room >= request
        large = capacity > 0 and held >= 0.1 * capacity
        says = (
            f"{who} hold {format_bytes(held)} of this card" if len(foreign) > 1 else f"{who} is on this card"
        )
        if enough:
            says += f"; without it the {format_bytes(request)} request would have fitted"
        rest = ledger.other_processes_bytes
        fits = rest is None or held <= rest + ledger.slack_bytes.get("other_processes_bytes", 0) + GIB
        if not fits:
            says += f"; but this process and free memory leave {format_bytes(rest or 0)} for others: both cannot be"
        likely = enough and large and fits
        return Match(
            Certainty.LIKELY if likely else Certainty.POSSIBLE,
            says + ".",
            weight=0.85 if likely else 0.6,
            numbers={"other_processes_bytes": held, "request_bytes": request},
            evidence=(case.failure.quote, *case.neighbours.from_smi[:4]),
        )

    def _by_difference(self, case: Case) -> Match | RuledOut | None:
        """Nobody is named: what is neither free nor PyTorch's, against what is ordinary."""
        ledger = case.ledger
        if ledger.process_bytes is not None and ledger.origins.get("process_bytes") in _READ:
            return self._own_process_known(case)
        unknown = ledger.not_torch_bytes
        capacity = ledger.capacity_bytes
        if unknown is None or not capacity:
            return None
        named = case.neighbours.total_bytes + (case.neighbours.self_bytes or 0)
        if named:
            return None
        share = unknown / capacity
        if unknown < ORDINARY_OUTSIDE and not (share >= 0.4 and unknown >= GIB):
            return RuledOut(
                self.cause,
                f"only {format_bytes(unknown)} of the card is neither free nor PyTorch's, an ordinary context",
            )
        request = case.request_bytes or 0
        says = (
            f"{format_bytes(unknown)} of the card is neither free nor PyTorch's "
            f"({format_bytes(capacity)} - {format_bytes(ledger.free_bytes or 0)} free - "
            f"{format_bytes(ledger.reserved_bytes or 0)} reserved); a context takes 0.3 to 2.2 GiB"
        )
        strong = share >= 0.25 and unknown + (ledger.free_bytes or 0) - GIB >= request
        return Match(
            Certainty.LIKELY if strong else Certainty.POSSIBLE,
            says + ", so another process or a library of this one holds the rest.",
            weight=0.6 + 0.35 * min(1.0, share) if strong else 0.35,
            numbers={"not_torch_bytes": unknown},
        )

    def _own_process_known(self, case: Case) -> Match | RuledOut | None:
        """The message says what this process has; what it and free memory leave belongs to others, named or not."""
        ledger = case.ledger
        rest = ledger.other_processes_bytes
        capacity = ledger.capacity_bytes
        if rest is None or not capacity:
            return None
        unnamed = rest - case.neighbours.total_bytes
        if rest < SMALL_NEIGHBOUR:
            most = rest + ledger.slack_bytes.get("other_processes_bytes", 0)
            return RuledOut(
                self.cause, f"this process and free memory leave at most {format_bytes(most)} for all others"
            )
        if unnamed < ORDINARY_OUTSIDE or case.neighbours.others:
            return None
        request = case.request_bytes or 0
        strong = unnamed >= 0.1 * capacity and unnamed + (ledger.free_bytes or 0) >= request
        return Match(
            Certainty.LIKELY if strong else Certainty.POSSIBLE,
            f"This process has {format_bytes(ledger.process_bytes or 0)} and "
            f"{format_bytes(ledger.free_bytes or 0)} are "
            f"free; the other {format_bytes(unnamed)} of the card belong to processes that the message cannot name "
            "(another container or user).",
            weight=0.84 if strong else 0.5,
            numbers={"other_processes_bytes": unnamed},
        )

    def _by_smi(self, case: Case) -> Match | None:
        """An error without numbers: nvidia-smi's last table before it says who had the card."""
        full = [
            reading
            for reading in case.evidence.gpus
            if reading.used and reading.total and reading.used.bytes >= 0.85 * reading.total.bytes
        ]
        if not full:
            return None
        rows = [row for row in case.evidence.gpu_processes if row.used and row.used.bytes >= SMALL_NEIGHBOUR]
        own = {one.pid for one in case.evidence.exits if one.pid is not None}
        strangers = [row for row in rows if row.pid not in own]
        if not strangers and rows:
            return None
        held = sum(row.used.bytes for row in strangers if row.used)
        quotes: tuple[Quote, ...] = tuple(row.quote for row in strangers[:4]) or tuple(
            r.quote for r in full[:2]
        )
        names = ", ".join(f"pid {row.pid} ({row.name})" for row in strangers[:4])
        says = f"nvidia-smi shows {len(full)} GPU(s) at least 85 % full" + (
            f", held by {names}." if names else ", and this job had allocated nothing yet."
        )
        return Match(
            Certainty.LIKELY,
            says,
            weight=0.95,
            numbers={"other_processes_bytes": held} if held else {},
            evidence=(case.failure.quote, *quotes),
        )
