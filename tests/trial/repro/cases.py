"""Training scripts (jobs/) and what is told of each: a job as people describe it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from oomph.job.config import from_config
from oomph.job.model import (
    Batch,
    Checkpointing,
    Evaluation,
    Framework,
    Job,
    Lora,
    Method,
    Optimizer,
    Parallel,
    Precision,
)

JOBS = Path(__file__).parent / "jobs"
LLAMA = {
    "model_type": "llama",
    "vocab_size": 32000,
    "hidden_size": 512,
    "intermediate_size": 1408,
    "num_hidden_layers": 2,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
}
AUTOCAST = Precision(compute="bf16", autocast=True)
STEP = ("load", "forward", "backward", "optimizer")


@dataclass(frozen=True)
class Case:
    """A script of `JOBS`, its job, its ranks, and the phases that it has."""

    name: str
    job: Job
    world: int = 1
    phases: tuple[str, ...] = STEP


def _job(config: dict[str, Any], name: str, framework: str = "pytorch", **parts: Any) -> Job:
    return Job(model=from_config(config, name), framework=Framework(name=framework), **parts)


CASES = (
    Case(
        "llama_loop",
        _job(
            LLAMA,
            "a small Llama",
            precision=AUTOCAST,
            batch=Batch(micro=4, sequence=384),
            optimizer=Optimizer(impl="fused"),
            evaluation=Evaluation(batch=8, samples=16),
        ),
        phases=(*STEP, "eval"),
    ),
    Case(
        "gpt2_trainer",
        _job(
            {"model_type": "gpt2", "n_embd": 384, "n_head": 6, "n_layer": 3, "vocab_size": 50257},
            "a small GPT-2",
            "transformers",
            precision=AUTOCAST,
            batch=Batch(micro=2, sequence=256, accumulation=2),
            parallel=Parallel(strategy="ddp", data=2),
            evaluation=Evaluation(batch=6, samples=48),
        ),
        world=2,
        phases=(*STEP, "eval"),
    ),
    Case(
        "bert_loop",
        _job(
            {
                "model_type": "bert",
                "architectures": ["BertForMaskedLM"],
                "hidden_size": 256,
                "num_hidden_layers": 3,
                "num_attention_heads": 4,
                "intermediate_size": 1024,
                "vocab_size": 30522,
            },
            "a small BERT",
            batch=Batch(micro=8, sequence=128),
            optimizer=Optimizer(name="sgd", momentum=0.9),
        ),
    ),
    Case(
        "t5_trainer",
        _job(
            {
                "model_type": "t5",
                "d_model": 256,
                "d_ff": 1024,
                "num_layers": 3,
                "num_heads": 4,
                "vocab_size": 32128,
            },
            "a small T5",
            "transformers",
            precision=Precision(weights="bf16", compute="bf16"),
            batch=Batch(micro=4, sequence=320, target=96),
            optimizer=Optimizer(name="adafactor", impl="for_loop"),
            checkpointing=Checkpointing(mode="full"),
        ),
    ),
    Case(
        "vit_loop",
        _job(
            {
                "model_type": "vit",
                "architectures": ["ViTForImageClassification"],
                "hidden_size": 192,
                "num_hidden_layers": 4,
                "num_attention_heads": 3,
                "intermediate_size": 768,
                "image_size": 224,
                "patch_size": 16,
                "num_labels": 1000,
            },
            "a small ViT",
            precision=Precision(compute="fp16", autocast=True),
            batch=Batch(micro=16, sequence=None, image_size=224),
        ),
    ),
    Case(
        "lora_loop",
        _job(
            {**LLAMA, "model_type": "qwen2", "num_hidden_layers": 3, "tie_word_embeddings": True},
            "a small Qwen2",
            precision=Precision(weights="bf16", compute="bf16"),
            batch=Batch(micro=4, sequence=512),
            method=Method(
                name="lora",
                lora=Lora(rank=16, targets=("q_proj", "k_proj", "v_proj", "o_proj"), dropout=0.05),
            ),
            checkpointing=Checkpointing(mode="full", reentrant=False),
        ),
    ),
    Case(
        "fsdp2_loop",
        _job(
            {**LLAMA, "num_hidden_layers": 3, "num_key_value_heads": 8},
            "a small Llama",
            precision=Precision(compute="bf16", reduce="fp32"),
            batch=Batch(micro=2, sequence=512),
            checkpointing=Checkpointing(mode="full"),
            parallel=Parallel(strategy="fsdp2_full", data=2),
            evaluation=Evaluation(batch=4, samples=12),
        ),
        world=2,
        phases=(*STEP, "eval"),
    ),
    Case(
        "ddp_loop",
        _job(
            {
                "model_type": "bert",
                "architectures": ["BertForSequenceClassification"],
                "vocab_size": 30522,
                "hidden_size": 384,
                "num_hidden_layers": 4,
                "num_attention_heads": 6,
                "intermediate_size": 1536,
                "num_labels": 5,
            },
            "a small BERT",
            precision=AUTOCAST,
            batch=Batch(micro=8, sequence=192, accumulation=3),
            parallel=Parallel(strategy="ddp", data=2, sync_each_batch=False),
        ),
        world=2,
    ),
    Case(
        "fsdp1_trainer",
        _job(
            {**LLAMA, "num_hidden_layers": 3},
            "a small Llama",
            "transformers",
            precision=AUTOCAST,
            batch=Batch(micro=2, sequence=512),
            parallel=Parallel(strategy="fsdp1_full_shard", data=2),
        ),
        world=2,
    ),
    Case(
        "moe_trainer",
        _job(
            {
                "model_type": "mixtral",
                "vocab_size": 8192,
                "hidden_size": 256,
                "intermediate_size": 512,
                "num_hidden_layers": 2,
                "num_attention_heads": 4,
                "num_key_value_heads": 2,
                "num_local_experts": 4,
                "num_experts_per_tok": 2,
            },
            "a small mixture of experts",
            "transformers",
            precision=Precision(weights="bf16", compute="bf16"),
            batch=Batch(micro=4, sequence=256),
            optimizer=Optimizer(impl="fused"),
            evaluation=Evaluation(batch=4, samples=20, keep_logits=True),
        ),
        phases=(*STEP, "eval"),
    ),
    Case(
        "sft_trainer",
        _job(
            {**LLAMA, "num_hidden_layers": 3},
            "a small Llama",
            "trl",
            precision=Precision(weights="bf16", compute="bf16", autocast=True),
            batch=Batch(micro=4, sequence=384, padding="off"),
            method=Method(name="lora", lora=Lora(targets=("q_proj", "v_proj"))),
            checkpointing=Checkpointing(mode="full"),
            evaluation=Evaluation(batch=4, samples=12),
        ),
        phases=(*STEP, "eval"),
    ),
    Case(
        "accelerate_loop",
        _job(
            {**LLAMA, "model_type": "mistral"},
            "a small Mistral",
            "accelerate",
            precision=AUTOCAST,
            batch=Batch(micro=2, sequence=384, accumulation=2),
            parallel=Parallel(strategy="ddp", data=2),
            evaluation=Evaluation(batch=4, samples=32),
        ),
        world=2,
        phases=(*STEP, "eval"),
    ),
)
