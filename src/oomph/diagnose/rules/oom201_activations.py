"""The step itself needs more than the card has: the rule that is left when nothing more specific speaks."""

from __future__ import annotations

from oomph.diagnose.case import Case
from oomph.diagnose.model import Certainty, RuledOut
from oomph.diagnose.rules.base import Match, Rule
from oomph.evidence.model import Kind
from oomph.memory.categories import Category
from oomph.phases import Phase
from oomph.units import format_bytes

_KINDS = (Kind.DEVICE_OOM, Kind.DEVICE_OOM_BARE)
_FORMATS_WITHOUT_NUMBERS = ("F0_thc", "none_frame_only", "bare_allocator")

#: From this part of what is allocated on, activations are what there is to shrink.
SNAPSHOT_SHARE = 0.3
#: Halving the batch a few times does not bridge this factor.
FAR_TOO_LARGE = 8


class Activations(Rule):
    """See the class attributes: they are the rule's documentation."""

    code = "OOM201"
    cause = "activations"
    name = "activations-do-not-fit"
    means = (
        "Parameters, gradients and optimizer state fitted; what the forward keeps for the backward, plus the "
        "temporaries of one operator, did not. It grows with the micro-batch and the sequence (or the image)."
    )
    decisive_evidence = (
        "A forward, backward or recompute frame, little cached memory, an ordinary amount outside PyTorch, and no "
        "evidence for a more specific cause."
    )
    first_action = (
        "Half the micro-batch with twice the gradient accumulation; at batch 1 activation checkpointing; only then "
        "shorter sequences."
    )
    verify = "The same step passes; max_memory_allocated() falls by about the share of the batch that was given up."
    wrong_advice = (
        "A smaller batch when it is already 1, empty_cache(), or blaming the frame: it is where memory ran "
        "out, not why."
    )
    actions = ("micro-batch", "checkpointing", "shorter-sequence")

    def _by_snapshot(self, case: Case, request: int | None) -> Match | None:
        """A snapshot of this very failure tells what was alive by what it was for."""
        inside = case.inside
        failure = inside.failure if inside is not None else None
        if inside is None or failure is None or case.phase not in (Phase.FORWARD, Phase.BACKWARD):
            return None
        held = inside.bytes_of(Category.ACTIVATIONS, Category.TEMPORARIES)
        share = held / max(1, failure.allocated_bytes)
        if share < SNAPSHOT_SHARE:
            return None
        sure = inside.surely(Category.ACTIVATIONS, Category.TEMPORARIES) / max(1, failure.allocated_bytes)
        likely = sure >= SNAPSHOT_SHARE
        return Match(
            Certainty.LIKELY if likely else Certainty.POSSIBLE,
            f"The memory snapshot shows that {format_bytes(held)} of the {format_bytes(failure.allocated_bytes)} "
            f"allocated ({share:.0%}) {'were' if likely else 'may have been'} activations and temporaries, which "
            "grow with the micro-batch and the sequence.",
            weight=0.3 + 0.4 * share,
            numbers={"activation_bytes": held, **({"request_bytes": request} if request else {})},
        )

    def check(self, case: Case) -> Match | RuledOut | None:
        if case.kind not in _KINDS:
            return None
        if case.kind is Kind.DEVICE_OOM_BARE and case.failure.format not in _FORMATS_WITHOUT_NUMBERS:
            return None
        ledger = case.ledger
        request = case.request_bytes
        numbers = {"request_bytes": request} if request else {}
        seen = self._by_snapshot(case, request)
        if seen is not None:
            return seen
        if request and ledger.capacity_bytes and request > FAR_TOO_LARGE * ledger.capacity_bytes:
            return Match(
                Certainty.POSSIBLE,
                f"One request of {format_bytes(request)} is {request // ledger.capacity_bytes:,} times the card: no "
                "batch size explains that. Look at the shape that the last frame makes: a wrong dimension, or scores "
                "of every position against every other at a very long sequence.",
                weight=0.5,
                numbers=numbers,
                actions=("shorter-sequence", "checkpointing"),
            )
        if request and ledger.capacity_bytes and request > ledger.capacity_bytes:
            return Match(
                Certainty.LIKELY,
                f"One request of {format_bytes(request)} is larger than the whole card "
                f"({format_bytes(ledger.capacity_bytes)}): the batch on this device is far too large.",
                weight=0.4,
                numbers=numbers,
            )
        if case.phase in (Phase.FORWARD, Phase.BACKWARD):
            where = (
                "a checkpoint's recompute in backward" if case.phase_verdict.recompute else f"{case.phase}"
            )
            says = f"Memory ran out in {where}"
            if ledger.allocated_bytes is not None:
                says += f" with {format_bytes(ledger.allocated_bytes)} handed out"
            return Match(
                Certainty.LIKELY,
                says + "; that grows with the micro-batch and the sequence.",
                weight=0.1,
                numbers=numbers,
            )
        if case.phase is Phase.UNKNOWN:
            return Match(
                Certainty.POSSIBLE,
                "Nothing in the input says in which phase memory ran out; if it was in a training step, its "
                "activations are the first thing to shrink.",
                weight=0.5,
                numbers=numbers,
            )
        return None
