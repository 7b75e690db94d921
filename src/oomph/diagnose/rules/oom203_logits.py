"""A tensor as wide as the vocabulary."""

from __future__ import annotations

import re

from oomph.diagnose.case import Case
from oomph.diagnose.model import Certainty, RuledOut
from oomph.diagnose.rules.base import Match, Rule
from oomph.evidence.model import Frame, Kind
from oomph.phases import Phase
from oomph.units import MIB, format_bytes

_LOSS = re.compile(
    r"cross_entropy|CrossEntropy|log_softmax|logsumexp|nll_loss|CausalLMLoss|lm_head|logits\.float\(\)|logits\.to\(|"
    r"\.logits\b|vocab_parallel|entropy_from_logits|selective_log_softmax|gather_log_probs|logprobs_from_logits|"
    r"log_probs_from_logits|softmax\(\w*logits|_get_per_token_logps|logits\s*=\s*logits"
)
#: Losses that never make the whole logits.
_FUSED = re.compile(
    r"fused_linear|liger|cut_cross_entropy|linear_cross_entropy|chunked_(?:cross_entropy|loss)", re.IGNORECASE
)
_LOSS_SAID = re.compile(r"cross.?entropy|logits|lm_head", re.IGNORECASE)
_TOKENS_SAID = re.compile(
    r"tokens per (?:micro-?batch|device|gpu)\s*[:=]?\s*(\d[\d,]{1,9})|(\d[\d,]{1,9}) tokens "
    r"(?:per|/) (?:micro-?batch|device|gpu)",
    re.IGNORECASE,
)
_SHAPE = re.compile(r"empty_strided(?:_cuda)?\(\((\d[\d, ]{0,60})\)")
_ITEM = {"float32": 4, "float16": 2, "bfloat16": 2}
#: From this part of what is allocated on, the loss is what to change.
SNAPSHOT_SHARE = 0.15
#: Smaller than any language model's vocabulary that is worth a diagnosis of its own.
_SMALL_VOCABULARY = 30_000


class LogitsLoss(Rule):
    """See the class attributes: they are the rule's documentation."""

    code = "OOM203"
    cause = "logits_loss"
    name = "logits-do-not-fit"
    means = (
        "The output layer makes a tensor of tokens x vocabulary, often twice (a copy in fp32, its softmax, its "
        "gradient). With a large vocabulary it dwarfs every activation."
    )
    decisive_evidence = (
        "The failing frame is the loss or the upcast of the logits; or the request is tokens x vocabulary x 2 "
        "or 4 bytes by the log's own figures; or generated code allocates a vocabulary-sized tensor of "
        "exactly the request."
    )
    first_action = (
        "A fused or chunked linear cross-entropy, which never makes the whole tensor; then a smaller "
        "micro-batch."
    )
    verify = "The peak falls by the size of the logits while the batch stays; the loss is the same."
    wrong_advice = (
        "Only lowering the batch: the logits stay the largest tensor and the next length spike brings it "
        "back."
    )
    actions = ("chunked-loss", "micro-batch", "shorter-sequence")

    def check(self, case: Case) -> Match | RuledOut | None:
        if case.kind is not Kind.DEVICE_OOM or case.phase not in (
            Phase.FORWARD,
            Phase.BACKWARD,
            Phase.UNKNOWN,
        ):
            return None
        return (
            self._by_snapshot(case)
            or self._by_frame(case)
            or self._by_shape(case)
            or self._by_arithmetic(case)
        )

    def _by_snapshot(self, case: Case) -> Match | None:
        """What stacks of the loss held when the request failed, and the request if it is the loss's own."""
        failure = case.inside.failure if case.inside is not None else None
        if case.inside is None or failure is None:
            return None
        held = sum(
            holder.bytes
            for holder in case.inside.device.holders
            if any(_LOSS.search(frame.function) for frame in holder.frames)
        )
        asked = any(_LOSS.search(frame.function) for frame in failure.frames)
        total = held + (failure.request_bytes if asked else 0)
        if total < SNAPSHOT_SHARE * failure.allocated_bytes:
            return None
        says = f"The memory snapshot shows that the loss on the logits held {format_bytes(held)}"
        if asked:
            says += f" and asked for {format_bytes(failure.request_bytes)} more"
        return Match(
            Certainty.LIKELY,
            says + f", of {format_bytes(failure.allocated_bytes)} allocated.",
            weight=0.85,
            numbers={"logits_bytes": held, "request_bytes": failure.request_bytes},
        )

    def _by_frame(self, case: Case) -> Match | None:
        """The last frame, or the last two when the last is a library's: the loss encloses nothing else."""
        last = self._of_loss(case)
        if last is None:
            return None
        code = last.span or last.code
        if not last.span and re.search(r"cross_entropy\([^()]*\w+\(", code) and ";" in code:
            return None
        request = case.request_bytes
        if case.frame_matching(_FUSED, innermost=6) is not None:
            return Match(
                Certainty.POSSIBLE,
                f"The request was made inside a fused loss (`{code[:80]}`), which does not keep the logits; what it "
                "needs besides (the gradient of the output layer) did not fit.",
                weight=0.7,
                numbers={"request_bytes": request} if request else {},
            )
        exact = self._exact(case)
        says = f"The request was made by the loss on the logits (`{code[:80]}`)"
        if request:
            says += f": {format_bytes(request)}"
        return Match(
            Certainty.LIKELY,
            says + (f", {exact}." if exact else "."),
            weight=0.75 if exact is None else 0.85,
            numbers={"request_bytes": request} if request else {},
        )

    def _of_loss(self, case: Case) -> Frame | None:
        last = case.last_frame
        if last is None or _LOSS.search(f"{last.function} {last.span or last.code}"):
            return last
        caller = case.frames[-2] if len(case.frames) > 1 else None
        if caller is None or not last.file.replace("\\", "/").endswith("torch/nn/functional.py"):
            return None
        return caller if _LOSS.search(f"{caller.function} {caller.span or caller.code}") else None

    def _exact(self, case: Case) -> str | None:
        """tokens x vocabulary x width, when it is the request to within a segment."""
        request, vocabulary = case.request_bytes, case.number("vocab_size")
        tokens = self._tokens(case)
        if not request or not vocabulary or not tokens:
            return None
        for width in (2, 4):
            size = tokens * vocabulary * width
            if abs(size - request) <= max(4 * MIB, request // 100):
                return f"{tokens:,} tokens x {vocabulary:,} entries x {width} bytes"
        return None

    def _tokens(self, case: Case) -> int | None:
        batch, length = case.number("batch_size"), case.number("sequence_length")
        if batch and length:
            return batch * length
        said = case.text_before(_TOKENS_SAID)
        match = _TOKENS_SAID.search(said.text) if said is not None else None
        return int((match[1] or match[2]).replace(",", "")) if match is not None else None

    def _by_shape(self, case: Case) -> Match | None:
        last = case.last_frame
        if last is None:
            return None
        match = _SHAPE.search(last.code)
        request = case.request_bytes
        if match is None or not request:
            return None
        dims = [int(part) for part in match[1].split(",") if part.strip().isdigit()]
        width = next((size for name, size in _ITEM.items() if name in last.code), None)
        if not dims or width is None or max(dims) < _SMALL_VOCABULARY:
            return None
        size = width
        for dim in dims:
            size *= dim
        if abs(size - request) > max(4 * MIB, request // 100):
            return None
        said = case.text_before(_LOSS_SAID)
        return Match(
            Certainty.LIKELY if said is not None else Certainty.POSSIBLE,
            f"Compiled code asks for a tensor of {' x '.join(f'{dim:,}' for dim in dims)} x {width} bytes = "
            f"{format_bytes(size)}: one side is as long as a vocabulary.",
            weight=0.7,
            numbers={"request_bytes": request},
            evidence=(case.failure.quote, *((said,) if said else ())),
        )

    def _by_arithmetic(self, case: Case) -> Match | None:
        exact = self._exact(case)
        if exact is not None:
            return Match(Certainty.LIKELY, f"The request is {exact}: the logits.", weight=0.8)
        vocabulary, tokens = case.number("vocab_size"), self._tokens(case)
        said = case.text_before(_LOSS_SAID)
        capacity = case.ledger.capacity_bytes
        if not capacity or said is None:
            return None
        if vocabulary and tokens and tokens * vocabulary * 4 >= 0.03 * capacity:
            size = tokens * vocabulary * 4
            return Match(
                Certainty.POSSIBLE,
                (
                    f"The logits of a step ({tokens:,} tokens x {vocabulary:,} entries) take {format_bytes(size)} "
                    "in fp32 and stay until the backward; the failing request is only the last straw."
                ),
                weight=0.8,
                numbers={"logits_bytes": size},
                evidence=(case.failure.quote, said),
            )
        return None
