"""CUDA graphs keep pools of their own."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from oomph.diagnose.case import Case
from oomph.diagnose.model import Certainty, RuledOut
from oomph.diagnose.rules.base import Match, Rule
from oomph.evidence.model import Kind
from oomph.units import format_bytes

if TYPE_CHECKING:
    from oomph.diagnose.snapshot.model import Inside

_FRAMES = re.compile(r"cudagraph|CUDAGraph|cuda_graph|autotune|graph_capture|capture_begin")
#: A pool below this share of what is allocated cannot be what filled the card.
MIN_SHARE = 0.2


class CudagraphPool(Rule):
    """See the class attributes: they are the rule's documentation."""

    code = "OOM209"
    cause = "cudagraph_compile_pool"
    name = "graph-pools-hold-the-memory"
    means = (
        "CUDA graphs (torch.compile with reduce-overhead or max-autotune, or captured by hand) keep their memory in "
        "private pools that ordinary allocations cannot use; each captured shape adds one."
    )
    decisive_evidence = (
        "`allocated in private pools` is a large share of what is allocated; or, where the message is too old to print "
        "it, a cudagraph or autotune frame while the same job fits without compiling."
    )
    first_action = (
        'Compile without graphs (mode="default", or max-autotune-no-cudagraphs), or with fewer shapes.'
    )
    verify = "The private-pool figure in the message or in memory_stats() is gone or small; the step passes."
    wrong_advice = "Expandable segments, and reading `allocated` as live tensors: the pools count in it."
    actions = ("compile-without-graphs", "fixed-shapes", "micro-batch")

    def check(self, case: Case) -> Match | RuledOut | None:
        if case.kind is not Kind.DEVICE_OOM:
            return None
        ledger = case.ledger
        pool, allocated = ledger.private_pool_bytes, ledger.allocated_bytes
        if case.inside is not None and case.inside.failure is not None:
            return self._by_snapshot(case.inside)
        frame = case.frame_matching(_FRAMES)
        if pool is not None and allocated:
            share = pool / allocated
            if share < MIN_SHARE:
                return RuledOut(
                    self.cause,
                    f"private pools hold {format_bytes(pool)}, {share:.0%} of what is allocated",
                )
            return Match(
                Certainty.LIKELY,
                f"Private pools of CUDA graphs hold {format_bytes(pool)} of the {format_bytes(allocated)} allocated "
                f"({share:.0%}), and nothing else can use them.",
                weight=0.93,
                numbers={"private_pool_bytes": pool},
            )
        if frame is None or "private" in case.failure.quote.text:
            return None
        if case.failure.format in ("F6_torchOOM", "F7_210", "F8_211"):
            return RuledOut(self.cause, "the message would print private pools if there were any")
        return Match(
            Certainty.LIKELY,
            f"The compiled run fails in {frame.function} while graphs are recorded; this release's message does not "
            "print what their pools hold.",
            weight=0.65,
        )

    def _by_snapshot(self, inside: Inside) -> Match | RuledOut | None:
        """What the pools keep from everything else is what they have reserved, in use or not."""
        held, reserved = inside.private_reserved_bytes, inside.device.ledger.reserved_bytes
        if not held or not reserved:
            return None
        share = held / reserved
        says = (
            f"private pools hold {format_bytes(held)} of the {format_bytes(reserved)} reserved ({share:.0%})"
        )
        if share < MIN_SHARE:
            return RuledOut(self.cause, says)
        return Match(
            Certainty.LIKELY,
            f"The memory snapshot shows that {says}, and nothing else can use them.",
            weight=0.93,
            numbers={"private_reserved_bytes": held},
        )
