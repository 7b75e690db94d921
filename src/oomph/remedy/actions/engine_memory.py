"""The share of the card that a co-located inference engine takes."""

from __future__ import annotations

from oomph.diagnose.case import Case
from oomph.diagnose.model import Finding, Step
from oomph.remedy.actions.base import Action
from oomph.units import format_bytes

#: What is left beside the shortfall when a new share is computed: contexts and rounding.
_MARGIN = 0.02
_LOWEST = 0.1


class EngineMemory(Action):
    """Lower utilisation; sleep while training."""

    code = "engine-memory"
    title = "Give the inference engine a smaller share of the card"

    def step(self, case: Case, finding: Finding) -> Step:
        held = case.neighbours.bytes_of("engine") or finding.numbers.get("engine_bytes", 0)
        text = f"The engine's processes hold {format_bytes(held)} of this card. " if held else ""
        share = _share(case)
        new = _lower(case, share)
        if share is not None:
            text += f"The log sets its memory utilisation to {share:g}. "
        if new is not None:
            short = case.ledger.short_by_bytes or 0
            text += f"{format_bytes(short)} were missing, which {new:g} would leave. "
        text += (
            "The engine takes its share when it starts and keeps it while the trainer works, unless it is "
            "put to sleep. Wake it only after the trainer's cache is released: here empty_cache() does "
            "help, because another allocator needs the memory."
        )
        value = f"{new:g}" if new is not None else "<lower than now>"
        paste = (
            f"gpu_memory_utilization={value}   # vllm; trl: vllm_gpu_memory_utilization, verl: "
            "rollout.gpu_memory_utilization\nllm.sleep(level=1)              # before training "
            "(enable_sleep_mode=True)\ntorch.cuda.empty_cache()        # before waking it\nllm.wake_up()"
        )
        return self.make(
            text,
            paste,
            outcomes=(
                (
                    "If the engine then fails to start or preempts much",
                    "its own model needs more: shorten its context or use other GPUs",
                ),
                (
                    "If the trainer fails with the engine asleep",
                    "the trainer is too large by itself: explain that log",
                ),
            ),
        )


def _share(case: Case) -> float | None:
    fact = case.fact("engine_utilization")
    if fact is None:
        return None
    try:
        value = float(fact.value)
    except ValueError:
        return None
    return value if 0 < value <= 1 else None


def _lower(case: Case, share: float | None) -> float | None:
    """The share, in steps of 0.05, that would have left the missing bytes free; None where a number is unknown."""
    short, capacity = case.ledger.short_by_bytes, case.ledger.capacity_bytes
    if share is None or not short or not capacity:
        return None
    steps = int((share - short / capacity - _MARGIN) / 0.05)
    new = round(steps * 0.05, 2)
    return new if _LOWEST <= new < share else None
