"""An inference engine shares the card with training."""

from __future__ import annotations

import re

from oomph.diagnose.case import Case
from oomph.diagnose.model import Certainty, RuledOut
from oomph.diagnose.rules.base import Match, Rule
from oomph.diagnose.rules.oom101_other_process import ORDINARY_OUTSIDE
from oomph.evidence.model import Kind, Quote
from oomph.units import format_bytes

_COLOCATED = re.compile(
    r"engine colocate|colocat|vllm_mode['\"]?\s*[:=]\s*['\"]?colocate|current vLLM instance can use|"
    r"gpu_memory_utilization|sleep_level|Available KV cache memory|same \d+ devices|# cuda blocks|hybrid_engine",
    re.IGNORECASE,
)
_ENGINE_FILE = re.compile(r"/(?:vllm|sglang)/")
_TRAINER = re.compile(
    r"/(?:trl|verl|openrlhf|nemo_rl|transformers/trainer|accelerate|deepspeed)[/.]|[Tt]rainer"
)
_TRAINING_SAID = re.compile(r"colocat|GRPO|PPO|RLHF|rollout", re.IGNORECASE)
_ENGINE_FRAME = re.compile(r"vllm|sglang|cumem|wake_up|kv_cache|KVCache", re.IGNORECASE)


class ColocatedEngine(Rule):
    """See the class attributes: they are the rule's documentation."""

    code = "OOM103"
    cause = "colocated_engine"
    name = "an-inference-engine-shares-the-card"
    means = (
        "A rollout or generation engine (vLLM, SGLang) keeps its weights and its KV cache on the card on which the "
        "trainer wants to work. Its memory is outside the trainer's allocator."
    )
    decisive_evidence = (
        "The process list names a pid that the log calls an engine or rollout worker; a cumem or wake_up frame; or "
        "much memory outside PyTorch's while the log shows a co-located engine."
    )
    first_action = "Give the engine less (gpu_memory_utilization), or let it sleep while the trainer works."
    verify = "The engine's process is small in nvidia-smi while the trainer steps; the same step passes."
    wrong_advice = "Tuning the trainer's batch: the trainer is not what fills the card."
    actions = ("engine-memory",)

    def check(self, case: Case) -> Match | RuledOut | None:
        if case.failure.detail.get("allocator") == "vllm cumem":
            return Match(
                Certainty.CERTAIN,
                "The engine's own allocator (cumem) could not map its memory again: the trainer holds the card "
                "when the engine wakes up.",
                weight=0.6,
            )
        if case.kind not in (Kind.DEVICE_OOM, Kind.DEVICE_OOM_BARE):
            return None
        inside = case.frame_matching(_ENGINE_FILE)
        if inside is not None and self._trains(case):
            return Match(
                Certainty.LIKELY,
                f"The request was made inside the inference engine ({inside.function} in "
                f"{inside.file.replace(chr(92), '/').rpartition('/')[2]}) that shares this card with the trainer.",
                weight=0.97,
            )
        engines = case.neighbours.of("engine")
        if engines:
            held = case.neighbours.bytes_of("engine")
            who = ", ".join(str(one.pid) for one in engines)
            return Match(
                Certainty.CERTAIN
                if held + (case.ledger.free_bytes or 0) >= (case.request_bytes or 0)
                else Certainty.LIKELY,
                f"Process {who}, an inference worker of this job, holds {format_bytes(held)} of this card.",
                weight=0.4,
                numbers={"engine_bytes": held},
            )
        return self._by_log(case)

    def _trains(self, case: Case) -> bool:
        """True when the same process trains: an engine that serves alone is not co-located."""
        if any(_TRAINER.search(f"{frame.file} {frame.function} {frame.code}") for frame in case.frames):
            return True
        return case.fact("trainable_params") is not None or case.text_anywhere(_TRAINING_SAID) is not None

    def _by_log(self, case: Case) -> Match | RuledOut | None:
        said = case.text_anywhere(_COLOCATED)
        frame = case.frame_matching(_ENGINE_FRAME)
        if said is None and frame is None:
            return None
        outside = case.ledger.not_torch_bytes
        if outside is not None and outside >= ORDINARY_OUTSIDE:
            quotes: tuple[Quote, ...] = (case.failure.quote, *((said,) if said else ()))
            return Match(
                Certainty.LIKELY,
                f"{format_bytes(outside)} of the card is neither free nor this allocator's, and the log shows an "
                "inference engine on the same card.",
                weight=0.95,
                numbers={"not_torch_bytes": outside},
                evidence=quotes,
            )
        if said is not None and outside is not None:
            return RuledOut(
                self.cause, f"only {format_bytes(outside)} is outside PyTorch, an engine would need more"
            )
        return None
