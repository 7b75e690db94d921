"""Optimizer state or the step's temporaries."""

from __future__ import annotations

import re

from oomph.diagnose.case import Case
from oomph.diagnose.model import Certainty, RuledOut
from oomph.diagnose.rules.base import Match, Rule
from oomph.evidence.model import Kind
from oomph.memory.categories import Category
from oomph.phases import Phase
from oomph.units import format_bytes

_TEMPORARIES = re.compile(r"_multi_tensor_|_foreach_")
_STATE = re.compile(r"_init_group|exp_avg|init_state|get_state_buffer|zeros_like|momentum_buffer")
_CLIP = re.compile(r"clip_grad|_get_total_norm|get_grad_norm")


class OptimizerMemory(Rule):
    """See the class attributes: they are the rule's documentation."""

    code = "OOM204"
    cause = "optimizer_memory"
    name = "optimizer-step-does-not-fit"
    means = (
        "The optimizer makes its state on the first step (Adam: two tensors per parameter), and the multi-tensor "
        "implementations make temporaries as large as the parameters on every step."
    )
    decisive_evidence = (
        "The failing frame is in the optimizer: exp_avg or exp_avg_sq being created, or a `_foreach_` temporary of "
        "`_multi_tensor_*`."
    )
    first_action = (
        "Temporaries: foreach=False, or fused=True. State: shard it (ZeRO, FSDP), keep it in 8 bits, or "
        "offload it."
    )
    verify = "The first two optimizer steps pass; memory after the first step is what the states predict."
    wrong_advice = "The batch size: on the first step the states have nothing to do with it."
    actions = ("shard-optimizer", "eight-bit-optimizer", "foreach-off")

    def check(self, case: Case) -> Match | RuledOut | None:
        without_sizes = case.failure.format in ("F0_thc", "bare_allocator")
        if (case.kind is not Kind.DEVICE_OOM and not without_sizes) or case.phase is not Phase.OPTIMIZER:
            return None
        request = case.request_bytes
        numbers = {"request_bytes": request} if request else {}
        if case.inside is not None and case.inside.failure is not None:
            numbers |= {
                "optimizer_state_bytes": case.inside.bytes_of(Category.OPTIMIZER_STATE),
                "temporaries_bytes": case.inside.bytes_of(Category.TEMPORARIES),
            }
        asked = f" ({format_bytes(request)})" if request else ""
        frame = case.frame_matching(_TEMPORARIES, innermost=3)
        if frame is not None:
            return Match(
                Certainty.LIKELY,
                f"The multi-tensor step makes a temporary as large as its parameters{asked} in {frame.function}.",
                weight=0.75,
                numbers=numbers,
                actions=("foreach-off", "shard-optimizer", "eight-bit-optimizer"),
            )
        frame = case.frame_matching(_STATE, innermost=3)
        if frame is not None:
            when = " on the first step" if case.phase_verdict.first_step is not False else ""
            return Match(
                Certainty.LIKELY,
                f"The optimizer is making its state{when}{asked}; it stays for the whole run.",
                weight=0.75,
                numbers=numbers,
                actions=("eight-bit-optimizer", "shard-optimizer"),
            )
        clipping = case.frame_matching(_CLIP, innermost=4) is not None
        return Match(
            Certainty.LIKELY,
            "Memory ran out in " + ("gradient clipping" if clipping else "the optimizer step") + f"{asked}.",
            weight=0.6,
            numbers=numbers,
        )
