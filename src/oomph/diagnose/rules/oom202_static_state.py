"""Weights, gradients and optimizer state alone are too big."""

from __future__ import annotations

import re
from dataclasses import dataclass

from oomph.diagnose.case import Case
from oomph.diagnose.model import Certainty, RuledOut
from oomph.diagnose.rules.base import Match, Rule
from oomph.evidence.model import Kind, Quote
from oomph.memory.categories import Category
from oomph.phases import Phase
from oomph.units import format_bytes

_BYTES = {"fp32": 4.0, "float32": 4.0, "bf16": 2.0, "fp16": 2.0, "8bit": 1.0, "4bit": 0.55}
_FSDP_UNIT = re.compile(
    r"_allgather_params|all_gather|unshard|foreach_all_gather|_all_gather_flat_param|fetch_sub_module"
)
#: A step needs some room; with so much taken by what does not depend on the batch, the batch is not what is too big.
STATIC_SHARE = 0.85
#: Below this, with all that nothing tells counted in, they are not what is too big.
SMALL_SHARE = 0.5
_STATIC = (Category.PARAMETERS, Category.GRADIENTS, Category.OPTIMIZER_STATE)
_SHARDED = ("fsdp", "fsdp2", "deepspeed", "megatron", "tensor_parallel")


@dataclass(frozen=True)
class _Estimate:
    """What the log's own numbers say that weights, gradients and optimizer state need on one device, in bytes."""

    size_bytes: int
    text: str
    quotes: tuple[Quote, ...]


class StaticState(Rule):
    """See the class attributes: they are the rule's documentation."""

    rests_on_sizes = False
    code = "OOM202"
    cause = "static_state_too_big"
    name = "weights-and-states-do-not-fit"
    means = (
        "What does not depend on the batch (weights, gradients, optimizer state, as this job keeps them) is "
        "more than the card has, or leaves nothing for a step. Often a setting that was meant to shrink it "
        "did not take effect."
    )
    decisive_evidence = (
        "A failure while loading or wrapping the model; or parameters times bytes per parameter, from the log's own "
        "figures, come near or above the card; or PyTorch holds more than the card has (Windows shared memory)."
    )
    first_action = (
        "Check that the dtype or quantization asked for took effect; then lower it, train LoRA, or shard."
    )
    verify = (
        "torch.cuda.memory_allocated() after loading is what parameters times bytes per parameter predict."
    )
    wrong_advice = (
        "The batch size before step 1; adding up the memory of several cards (a model does not spread by "
        "itself)."
    )
    actions = ("quantize-check", "lower-dtype", "lora", "shard-more", "meta-load")

    def check(self, case: Case) -> Match | RuledOut | None:
        if case.kind not in (Kind.DEVICE_OOM, Kind.DEVICE_OOM_BARE):
            return None
        if case.failure.detail.get("finder"):
            return Match(
                Certainty.LIKELY,
                "The batch-size finder went down to nothing: not even batch 1 fits, so the batch is not "
                "what is too big.",
                weight=0.6,
            )
        if case.kind is Kind.DEVICE_OOM_BARE:
            return None
        estimate = self._estimate(case)
        matched = self._by_snapshot(case) or self._by_arithmetic(case, estimate)
        if matched is not None:
            return matched
        return self._by_place(case, estimate) or self._by_shared_memory(case) or self._weak(case)

    def _by_snapshot(self, case: Case) -> Match | RuledOut | None:
        """A snapshot of this very failure tells what was alive by what it was for."""
        failure = case.inside.failure if case.inside is not None else None
        if case.inside is None or failure is None or not failure.available_bytes:
            return None
        parts = {
            name: case.inside.bytes_of(category)
            for name, category in (
                ("parameters", Category.PARAMETERS),
                ("gradients", Category.GRADIENTS),
                ("optimizer state", Category.OPTIMIZER_STATE),
            )
        }
        held = sum(parts.values())
        # What is unknown, or only possibly something else, may be weights.
        rest = failure.allocated_bytes - case.inside.surely(
            *(one for one in Category if one not in (*_STATIC, Category.UNKNOWN))
        )
        if rest < SMALL_SHARE * failure.available_bytes:
            return RuledOut(
                self.cause,
                f"weights, gradients and optimizer state were {format_bytes(held)} of the "
                f"{format_bytes(failure.available_bytes)} that PyTorch could have had",
            )
        if held < STATIC_SHARE * failure.available_bytes:
            return None
        listed = ", ".join(f"{name} {format_bytes(size)}" for name, size in parts.items() if size)
        likely = case.inside.surely(*_STATIC) >= STATIC_SHARE * failure.available_bytes
        return Match(
            Certainty.LIKELY if likely else Certainty.POSSIBLE,
            (
                f"The memory snapshot shows that {format_bytes(held)} of the "
                f"{format_bytes(failure.available_bytes)} that PyTorch could have had "
                f"{'do' if likely else 'may'} not depend on the batch ({listed})."
            ),
            weight=0.9,
            numbers={"static_bytes": held, "available_bytes": failure.available_bytes},
        )

    def _estimate(self, case: Case) -> _Estimate | None:
        total, trainable = case.fact("total_params"), case.fact("trainable_params")
        count_fact = total or trainable
        if count_fact is None or not count_fact.value.isdigit():
            return None
        framework = case.fact("framework")
        if framework is not None and framework.value in _SHARDED:
            return None
        count = int(count_fact.value)
        trained = int(trainable.value) if trainable is not None and trainable.value.isdigit() else count
        dtype = case.fact("dtype")
        mixed = case.fact("mixed_precision")
        width = _BYTES.get(dtype.value) if dtype is not None else None
        if width is None and mixed is not None and mixed.value == "no":
            width = 4.0
        quotes = tuple(fact.quote for fact in (count_fact, trainable, dtype, mixed) if fact is not None)
        if width is None:
            return None
        size = count * width
        text = f"{count / 1e9:.2f} B parameters x {width:g} bytes"
        full = trained >= 0.5 * count
        trains = case.phase not in (Phase.EVAL, Phase.GENERATE)
        if full and trains and case.phase_verdict.first_step is not False:
            states, words = _states(case, width)
            size += trained * (width + states)
            text += f" + gradients{words}"
        text += f" = {format_bytes(int(size))}"
        return _Estimate(int(size), text, quotes)

    def _by_arithmetic(self, case: Case, estimate: _Estimate | None) -> Match | None:
        capacity = case.ledger.capacity_bytes
        if estimate is None or not capacity:
            return None
        if case.phase_verdict.first_step is False:
            return None
        if estimate.size_bytes < 0.9 * capacity:
            return None
        return Match(
            Certainty.LIKELY,
            f"{estimate.text}, on a card of {format_bytes(capacity)}: "
            + (
                "it cannot fit at any batch size."
                if estimate.size_bytes >= capacity
                else "no room is left for activations."
            ),
            weight=0.9,
            numbers={"static_bytes": estimate.size_bytes, "capacity_bytes": capacity},
            evidence=(*estimate.quotes, case.failure.quote),
        )

    def _by_place(self, case: Case, estimate: _Estimate | None) -> Match | None:
        if case.phase not in (Phase.LOAD, Phase.INIT):
            return None
        allocated = case.ledger.allocated_bytes
        says = "Memory ran out while the model was " + (
            "still being loaded" if case.phase is Phase.LOAD else "being wrapped and set up"
        )
        if allocated is not None:
            says += f" ({format_bytes(allocated)} of weights and buffers so far)"
        if estimate is not None:
            says += f"; {estimate.text}"
        return Match(
            Certainty.LIKELY,
            says + "; no batch had been seen yet.",
            weight=0.5,
            numbers={"allocated_bytes": allocated} if allocated else {},
            evidence=(case.failure.quote, *(estimate.quotes if estimate else ())),
        )

    def _by_shared_memory(self, case: Case) -> Match | None:
        ledger = case.ledger
        if (
            not ledger.capacity_bytes
            or not ledger.allocated_bytes
            or ledger.allocated_bytes <= ledger.capacity_bytes
        ):
            return None
        windows = case.platform in ("windows", "wsl2") or any("\\" in frame.file for frame in case.frames)
        return Match(
            Certainty.LIKELY if windows else Certainty.POSSIBLE,
            f"PyTorch holds {format_bytes(ledger.allocated_bytes)} on a card of "
            f"{format_bytes(ledger.capacity_bytes)}: "
            + (
                "Windows had moved part of it to shared system memory long before this request."
                if windows
                else "only Windows does that, by moving a part to system memory; elsewhere such sizes are damaged."
            ),
            weight=0.35,
            numbers={"allocated_bytes": ledger.allocated_bytes},
        )

    def _weak(self, case: Case) -> Match | None:
        frame = case.frame_matching(_FSDP_UNIT, innermost=6)
        if frame is not None and case.phase in (Phase.FORWARD, Phase.BACKWARD):
            return Match(
                Certainty.POSSIBLE,
                f"The request gathers the full parameters of one sharded unit ({frame.function}): the unit, or the "
                "shards beside it, may be too big.",
                weight=0.7,
            )
        first = case.phase_verdict.first_step
        if case.phase in (Phase.FORWARD, Phase.OPTIMIZER) and first is not False:
            when = "in the first step" if first else "and no step is seen to have finished before"
            return Match(
                Certainty.POSSIBLE,
                f"It failed {when}: look at memory_allocated() right before it, to tell weights and states from "
                "activations.",
                weight=0.3 if first else 0.1,
            )
        return None


def _states(case: Case, width: float) -> tuple[float, str]:
    """Bytes of optimizer state per trained parameter, and the words for it; 0 where the optimizer is not known.

    PyTorch's Adam keeps its two states in the parameter's own dtype; DeepSpeed keeps an fp32 copy and fp32 states;
    bitsandbytes' 8-bit states take one byte each; Adafactor's factored ones and plain SGD's are next to nothing.
    """
    fact = case.fact("optimizer")
    name = fact.value.lower() if fact is not None else ""
    default = ""
    if fact is None and any(one.value == "transformers" for one in case.evidence.facts_named("framework")):
        name, default = "adamw", ", the Trainer's default"
    if "adam" not in name:
        return 0.0, ""
    if "8bit" in name or "8-bit" in name:
        return 2.0, " + two 8-bit Adam states"
    if case.fact("zero_stage") is not None and width < 4:
        return 12.0, " + an fp32 copy and two fp32 Adam states"
    return 2 * width, f" + two Adam states{default}"
