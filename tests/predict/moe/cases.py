"""Mixtures of experts: set-ups of small models with every dimension of their own kind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from oomph.job.model import Job
from tests.predict.grid.cases import Case

#: Small, but with more experts than a layer's other parts; vocabularies do not outweigh the layers.
_EXPERTS = {"num_experts": 16, "num_experts_per_tok": 4, "moe_intermediate_size": 384}
CONFIGS: dict[str, dict[str, Any]] = {
    "mixtral": {"num_local_experts": 8, "num_experts_per_tok": 2, "head_dim": 64},
    "qwen2_moe": {**_EXPERTS, "shared_expert_intermediate_size": 704},
    "qwen3_moe": {**_EXPERTS, "head_dim": 64},
    "olmoe": {"num_experts": 16, "num_experts_per_tok": 4},
    "gpt_oss": {"num_local_experts": 16, "num_experts_per_tok": 4, "head_dim": 64, "pad_token_id": 0},
    "deepseek_v2": {
        "num_hidden_layers": 4,
        "first_k_dense_replace": 1,
        "q_lora_rank": 192,
        "kv_lora_rank": 128,
        "qk_nope_head_dim": 64,
        "qk_rope_head_dim": 32,
        "v_head_dim": 64,
        "n_routed_experts": 16,
        "n_shared_experts": 2,
        "num_experts_per_tok": 4,
        "moe_intermediate_size": 384,
        "n_group": 4,
        "topk_group": 2,
        "topk_method": "group_limited_greedy",
    },
}
CONFIGS["deepseek_v2_lite"] = {
    **CONFIGS["deepseek_v2"],
    "q_lora_rank": None,
    "n_group": 1,
    "topk_group": 1,
    "topk_method": "greedy",
}
CONFIGS["deepseek_v3"] = {
    name: value for name, value in CONFIGS["deepseek_v2"].items() if name != "topk_method"
} | {"first_k_dense_replace": 2, "num_hidden_layers": 5}
ATTENTION = {"gpt_oss": "eager"}
TARGETS = dict.fromkeys(("deepseek_v2", "deepseek_v3"), ("q_a_proj", "kv_b_proj", "o_proj"))


def case(name: str, **settings: Any) -> Case:
    """A case of one of `CONFIGS`; `lora`: on some modules of attention."""
    family = name.removesuffix("_lite")
    latent = family.startswith("deepseek")
    if settings.get("lora") is True:
        settings["lora"] = TARGETS.get(name, ("q_proj", "o_proj"))
    words = " ".join(f"{key}={value}" for key, value in settings.items())
    more = {**CONFIGS[name], **settings.pop("more", {})}
    if "flash" not in settings.get("attention", ""):
        settings.setdefault("attention", ATTENTION.get(name, "sdpa"))
    return Case(
        f"{name} {words}".strip(),
        family=family,
        kv_heads=8 if latent else 2,
        more=more,
        **settings,
    )


@dataclass(frozen=True)
class Spread(Case):
    """A case whose experts are spread over `expert` of its ranks. To the traced one come `crowd` times the rows that it
    sends."""

    expert: int = 2
    crowd: int = 1

    def job(self) -> Job:
        """For the plan."""
        job = super().job()
        parallel = msgspec.structs.replace(job.parallel, expert=self.expert)
        return msgspec.structs.replace(job, parallel=parallel)


def spread(name: str, ranks: int, expert: int, crowd: int = 1, **settings: Any) -> Spread:
    """A case with expert parallelism, under FSDP2."""
    found = case(name, strategy="fsdp2_full", ranks=ranks, evaluates=False, **settings)
    fields = {each: getattr(found, each) for each in found.__dataclass_fields__}
    return Spread(**{**fields, "name": f"{found.name} {expert=} {crowd=}", "expert": expert, "crowd": crowd})
