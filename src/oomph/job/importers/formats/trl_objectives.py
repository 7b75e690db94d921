"""What TRL's configurations say of objectives: which models stand by, what is generated, and by whom.

Source of keys and defaults: trl 1.16, trl/trainer/dpo_config.py, kto_config.py, reward_config.py, grpo_config.py,
rloo_config.py.
"""

from __future__ import annotations

from collections.abc import Mapping

from oomph.job.importers.imported import Collector, Handler
from oomph.job.importers.values import flag, off, real, refused, to_whole, whole

#: Trainers whose objective a job can say.
OBJECTIVES = {
    "DPO": "dpo",
    "KTO": "kto",
    "ORPO": "orpo",
    "PPO": "ppo",
    "reward modelling": "reward",
    "GRPO": "grpo",
    "RLOO": "rloo",
}
_GENERATE = ("grpo", "rloo")
#: max_completion_length; and of prompts what max_prompt_length was until it went (in 1.0).
_COMPLETION, _PROMPT = 256, 512


def _precomputed(collector: Collector, key: str, value: object) -> None:
    if flag(value):
        collector.put("objective.reference", "precomputed", key, value)


def _without_reference(collector: Collector, key: str, value: object) -> None:
    if flag(value):
        collector.put("objective.reference", "without", key, value)


def _beta(collector: Collector, key: str, value: object) -> None:
    """The weight of the difference to the reference: with 0 there is none."""
    number = real(value)
    if number is not None:
        collector.put("objective.reference", "initial" if number else "without", key, value)


def _dropout_off(collector: Collector, key: str, value: object) -> None:
    if flag(value) is False:
        collector.refuse(key, value, "dropout beside log-probabilities")


def _vllm(collector: Collector, key: str, value: object) -> None:
    if flag(value):
        collector.put("objective.rollouts", "vllm_colocate", key, value)


def _liger(collector: Collector, key: str, value: object) -> None:
    if flag(value):
        collector.note(
            f"{key}: liger's kernels for norms, rotary embedding and the gated MLP save less than what is planned; the "
            "trainer's own output layer stays"
        )


def _share(collector: Collector, key: str, value: object) -> None:
    number = real(value)
    if number is not None and 0 < number <= 1:
        collector.put("objective.vllm_memory", number, key, value)
    elif not off(value):
        collector.refuse(key, value, "not a share from 0 to 1")


def _sleeps(collector: Collector, key: str, value: object) -> None:
    if flag(value):
        collector.put("objective.vllm_sleep", True, key, value)


_ALL: dict[str, Handler] = {
    "use_liger_kernel": _liger,
    "use_liger_loss": refused("liger's loss, which TRL had until 1.15"),
    "disable_dropout": _dropout_off,
    "sync_ref_model": lambda collector, key, value: (
        collector.put("objective.reference", "copy", key, value) if flag(value) else None
    ),
}
_PREFERENCE: dict[str, Handler] = {
    **_ALL,
    "precompute_ref_log_probs": _precomputed,
    "reference_free": _without_reference,
    "padding_free": lambda *_: None,
}
_GENERATING: dict[str, Handler] = {
    **_ALL,
    "disable_dropout": lambda *_: None,
    "beta": _beta,
    "num_generations": to_whole("objective.generations"),
    "steps_per_generation": to_whole("objective.steps_per_generation"),
    "max_completion_length": to_whole("objective.completion"),
    "use_vllm": _vllm,
    "vllm_gpu_memory_utilization": _share,
    "vllm_enable_sleep_mode": _sleeps,
    "use_transformers_continuous_batching": refused(
        "transformers' continuous batching, whose cache is paged"
    ),
    "use_transformers_paged": refused("transformers' paged generation"),
    "cache_implementation": refused("a cache of another kind"),
}


def keys(name: str) -> dict[str, Handler]:
    """The keys of a trainer (`name`: as `OBJECTIVES` has it) beside those of all."""
    return _GENERATING if OBJECTIVES[name] in _GENERATE else _PREFERENCE


def finish(collector: Collector, name: str, arguments: Mapping[str, object]) -> None:
    """The objective, and what several keys say of it together."""
    objective = OBJECTIVES[name]
    collector.put("objective.name", objective, "trainer", name)
    if objective in _GENERATE:
        _lengths(collector, arguments)
        _engine(collector, arguments)
        batch = arguments.get("generation_batch_size")
        if whole(batch) and not arguments.get("steps_per_generation"):
            collector.refuse("generation_batch_size", batch, "say steps_per_generation")


def _lengths(collector: Collector, arguments: Mapping[str, object]) -> None:
    completion = whole(collector.get("objective.completion"))
    if completion is None:
        completion = _COMPLETION
        collector.default("objective.completion", completion, "TRL's default of max_completion_length")
    prompt = whole(arguments.get("max_prompt_length"))
    if prompt is None:
        collector.note(
            f"no file says how long prompts are: planned are {_PROMPT} tokens beside {completion} of the completion "
            "(batch.sequence is both)"
        )
    total = (prompt or _PROMPT) + completion
    key = "max_prompt_length + max_completion_length"
    if prompt is None:
        collector.default("batch.sequence", total, key)
    else:
        collector.put("batch.sequence", total, key, total)


def _engine(collector: Collector, arguments: Mapping[str, object]) -> None:
    """vLLM's settings count where it is on."""
    if collector.get("objective.rollouts") is None:
        for path in ("objective.vllm_memory", "objective.vllm_sleep"):
            collector.values.pop(path, None)
    elif str(arguments.get("vllm_mode", "colocate")) == "server":
        collector.put("objective.rollouts", "vllm_server", "vllm_mode", "server")
