"""Memory that grows from step to step."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from oomph.diagnose.case import Case
from oomph.diagnose.model import Certainty, Finding, RuledOut
from oomph.diagnose.rules.base import BANDS, Match, Rule
from oomph.evidence.model import Kind, MemorySample
from oomph.phases import Phase
from oomph.units import format_bytes

if TYPE_CHECKING:
    from oomph.diagnose.snapshot.model import Growth

#: Fewer figures do not make a trend.
MIN_SAMPLES = 6
#: So many are a suspicion when they at least double.
FEW_SAMPLES = 4
#: Growth over the series that warm-up and fragmentation do not explain (docs/decisions/0004).
MIN_GROWTH = 0.25


class GrowthOverSteps(Rule):
    """See the class attributes: they are the rule's documentation."""

    code = "OOM208"
    cause = "growth_over_steps"
    name = "memory-grows-every-step"
    means = (
        "Something keeps tensors alive from one step to the next: a loss that is summed with its graph, outputs in a "
        "list, a cache that is never emptied. The job dies at a step far from the first, whatever the batch."
    )
    decisive_evidence = (
        "The allocated memory that the job itself prints rises through the run, to the end, at constant "
        "shapes."
    )
    first_action = (
        "Keep numbers instead of tensors: .item() or .detach().cpu() for everything that outlives a step."
    )
    verify = "memory_allocated() printed at the end of each step stays constant after the first few."
    wrong_advice = "empty_cache() every step: what is referenced cannot be freed."
    actions = ("detach-kept", "collect-snapshot")

    def check(self, case: Case) -> Match | RuledOut | None:
        if case.kind is not Kind.DEVICE_OOM or case.phase in (Phase.LOAD, Phase.INIT):
            return None
        if case.inside is not None and case.inside.device.growth is not None:
            known = self.by_snapshot(case.inside.device.growth)
            if known is not None:
                return known
        series = self._series(case)
        if len(series) < MIN_SAMPLES:
            return self._few(case, series)
        first, last = series[0].value.bytes, series[-1].value.bytes
        if first <= 0:
            return None
        growth = last / first - 1
        rising = _share_rising(series)
        if growth < MIN_GROWTH or rising < 0.8 or not _late_growth(series):
            return RuledOut(
                self.cause,
                f"the job's own figures go from {format_bytes(first)} to {format_bytes(last)} over {len(series)} "
                "readings, no steady growth",
            )
        evaluating = case.phase in (Phase.EVAL, Phase.GENERATE)
        peaks = series[0].what.startswith("max_") and not _even(series)
        return Match(
            Certainty.POSSIBLE if evaluating or peaks else Certainty.LIKELY,
            f"What is allocated grew from {format_bytes(first)} to {format_bytes(last)} over {len(series)} readings, "
            "and was still growing: something keeps tensors of earlier steps.",
            weight=0.9,
            numbers={"first_bytes": first, "last_bytes": last, "readings": len(series)},
            evidence=(series[0].quote, series[-1].quote),
        )

    def before_a_failure(self, growth: Growth) -> Finding | None:
        """The finding of a snapshot in which nothing has failed yet, where growth is more than a guess."""
        match = self.by_snapshot(growth)
        if not isinstance(match, Match) or match.certainty is Certainty.POSSIBLE:
            return None
        return Finding(
            code=self.code,
            cause=self.cause,
            name=self.name,
            certainty=match.certainty,
            says=match.says,
            numbers=dict(match.numbers),
            actions=self.actions,
            score=BANDS[match.certainty] + match.weight,
        )

    def by_snapshot(self, growth: Growth) -> Match | RuledOut | None:
        """The snapshot shows what outlives its step; too few steps in it say nothing."""
        if not growth.leaks:
            enough = growth.usual_peak_bytes is not None
            return RuledOut(self.cause, "the memory snapshot: " + growth.says) if enough else None
        lead = growth.leaks[0]
        return Match(
            lead.certainty,
            "The memory snapshot shows it: " + growth.says,
            weight=0.95,
            numbers={
                "bytes_per_step": growth.bytes_per_step,
                "steps": growth.steps,
                **({"fails_at_step": growth.fails_at_step} if growth.fails_at_step is not None else {}),
            },
        )

    def _few(self, case: Case, series: Sequence[MemorySample]) -> Match | None:
        """Few readings are a suspicion where each is higher and the last is near what is allocated at the failure."""
        allocated = case.ledger.allocated_bytes
        if len(series) < FEW_SAMPLES or not allocated:
            return None
        values = [one.value.bytes for one in series]
        rises = all(after > before for before, after in pairwise(values))
        if not rises or values[-1] < 2 * values[0] or values[-1] < allocated // 2:
            return None
        return Match(
            Certainty.POSSIBLE,
            f"Each of the {len(values)} figures that the job printed is higher than the one before, from "
            f"{format_bytes(values[0])} to {format_bytes(values[-1])}: what is kept grows with the steps.",
            weight=0.9,
            numbers={"first_bytes": values[0], "last_bytes": values[-1], "readings": len(values)},
            evidence=(series[0].quote, series[-1].quote),
        )

    def _series(self, case: Case) -> Sequence[MemorySample]:
        """The longest series of one kind of figure by one printer."""
        best: list[MemorySample] = []
        # What is reserved also grows by fragmentation: that is another rule's.
        for what in ("allocated", "used", "max_allocated"):
            samples = [
                one for one in case.samples(what) if one.context != "eval" and one.printer != "nvidia-smi"
            ]
            if len(samples) > len(best) or (what == "allocated" and len(samples) >= MIN_SAMPLES):
                best = samples
                if what == "allocated" and len(samples) >= MIN_SAMPLES:
                    break
        return best


def _share_rising(series: Sequence[MemorySample]) -> float:
    """The share of neighbouring readings that do not fall."""
    pairs = list(pairwise(series))
    return sum(after.value.bytes >= before.value.bytes for before, after in pairs) / max(1, len(pairs))


def _late_growth(series: Sequence[MemorySample]) -> bool:
    """True when the last third of the readings still adds its share: a warm-up flattens, a leak does not."""
    third = max(2, len(series) // 3)
    early = series[0].value.bytes
    late_start, end = series[-third].value.bytes, series[-1].value.bytes
    even = (third - 1) / (len(series) - 1)
    return end - late_start >= 0.5 * even * (end - early)


def _even(series: Sequence[MemorySample]) -> bool:
    """True when every step adds about as much: a running maximum also rises by a longer batch now and then."""
    steps = sorted(after.value.bytes - before.value.bytes for before, after in pairwise(series))
    middle = steps[len(steps) // 2]
    return middle > 0 and steps[0] >= middle // 2 and steps[-1] <= 2 * middle
