"""Mixtures of experts: which form of a family's class runs, what of them is not modelled, what is taken for granted."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.job.families import dimensions, major_of
from oomph.job.families.build import Reader
from oomph.job.model import Job, Model
from oomph.predict.frameworks.versions import below

#: Families with experts, and those of them with latent attention.
LATENT = frozenset(("deepseek_v2", "deepseek_v3"))
FAMILIES = frozenset(("mixtral", "qwen2_moe", "qwen3_moe", "olmoe", "gpt_oss", *LATENT))
#: Whose adapters on what were an expert's linear layers PEFT makes adapters on parameters (transformers 5 has all
#: experts in two tensors; peft/utils/transformers_weight_conversion.py), and those layers' names.
_CONVERTED = FAMILIES - {"gpt_oss", "qwen2_moe"}
_OF_EXPERTS = frozenset(
    ("gate", "gate_proj", "up_proj", "down_proj", "gate_up_proj", "w1", "w2", "w3", "all-linear")
)
#: How V2's router chooses, in the forms that were recorded.
_GROUPS, _GREEDY = "group_limited_greedy", "greedy"


def form(model: Model) -> str:
    """The form of the family's class, as variants name it: `plain_queries` where no latent is between the hidden state
    and the queries (DeepSeek-V2-Lite)."""
    return "plain_queries" if model.family in LATENT and not dimensions(model)["q_rank"] else ""


def dense_layers(model: Model) -> int:
    """How many of the first layers have no experts."""
    dims = dimensions(model)
    return dims["layers"] - dims.get("sparse_layers", dims["layers"]) if model.family in LATENT else 0


def router(model: Model) -> dict[str, int]:
    """Dimensions of a router that chooses from groups of experts; {} for others."""
    if model.family not in LATENT:
        return {}
    groups, kept = (
        Reader(model, {name: default if model.family == "deepseek_v3" else 1}).number(name)
        for name, default in (("n_group", 8), ("topk_group", 4))
    )
    return {
        "router_groups": groups,
        "router_kept": kept,
        "router_width": dimensions(model)["experts"] // groups,
    }


def missing(job: Job) -> Iterator[str]:
    """What of experts is not modelled."""
    model = job.model
    if model.family not in FAMILIES:
        return
    dims, lora = dimensions(model), job.method.lora
    dense = dims["layers"] - dims.get("sparse_layers", dims["layers"])
    if dense and model.family not in LATENT:
        yield f"layers without experts among those of {model.family}"
    if model.family == "deepseek_v2":
        method = str(model.get("topk_method", _GREEDY))
        if (method == _GREEDY) != (form(model) == "plain_queries"):
            yield (
                f"deepseek_v2 whose router is {method} {'without' if form(model) else 'with'} compressed queries "
                "(DeepSeek-V2's is group_limited_greedy with, DeepSeek-V2-Lite's greedy without)"
            )
    if model.family == "deepseek_v3" and model.get("rope_interleave", True) is not True:
        yield "deepseek_v3 whose rotated dimensions are not interleaved"
    if model.family in LATENT and job.precision.weights in ("bf16", "fp16"):
        strategy = job.parallel.strategy
        if strategy.startswith("fsdp1") or (strategy.startswith("fsdp2") and lora is None):
            yield (
                f"FSDP of {model.family} with {job.precision.weights} weights: transformers keeps routers in fp32, and "
                "FSDP asks for one type in each unit (--set precision.weights=fp32)"
            )
    if model.family in LATENT and job.evaluation.generate:
        yield f"generation by {model.family} (what its cache keeps of latents is its version's affair)"
    if model.family in LATENT and job.parallel.context > 1:
        yield "context parallelism of latent attention"
    if model.get("output_router_logits") is True:
        yield "the auxiliary loss of routers (output_router_logits)"
    if lora is not None and model.family in _CONVERTED and major_of(job.framework) >= 5:
        named = sorted(_OF_EXPERTS.intersection(lora.targets))
        if named:
            yield f"adapters on experts ({', '.join(named)}, which PEFT makes adapters on parameters)"


def assumptions(job: Job) -> Iterator[str]:
    """What is taken for granted of experts."""
    model = job.model
    if model.family not in FAMILIES:
        return
    old = below(job.framework, "transformers", 5) is True
    if old and not (model.family == "mixtral" and below(job.framework, "transformers", 4, 49)):
        yield (
            "Before transformers 5 a layer's experts ran one after the other: today's class is played, which computes "
            "them together and keeps as many rows."
        )
    elif job.parallel.expert == 1:
        yield (
            "Experts run as products of groups of rows: tokens times experts of each, in all, however they are spread "
            "over the experts."
        )
    if job.precision.autocast and not old and not job.parallel.strategy.startswith(("fsdp", "zero")):
        yield ("Experts compute in the type of their weights: autocast leaves grouped products alone.")
    if job.method.quantization is not None and major_of(job.framework) >= 5:
        yield "Experts stay as they are: bitsandbytes quantises linear layers, and transformers 5 has none of experts."
    if model.family == "gpt_oss":
        if job.attention == "sdpa":
            yield "gpt_oss runs eager attention: its class has sinks, for which there is no sdpa."
        yield "MXFP4 weights are made bf16 when they are loaded (Mxfp4Config(dequantize=True)), as training needs."
    if model.family in LATENT:
        yield "Routers' weights, which transformers keeps in fp32, are counted in the type of the other weights."
