"""What a router's gradient keeps alive."""

from __future__ import annotations

import json
from pathlib import Path

import oomph
from oomph.phases import Phase

CONFIG = {
    "model_type": "qwen3_moe",
    "hidden_size": 1024,
    "intermediate_size": 3072,
    "moe_intermediate_size": 512,
    "num_experts": 16,
    "num_experts_per_tok": 4,
    "num_hidden_layers": 4,
    "num_attention_heads": 16,
    "num_key_value_heads": 4,
    "head_dim": 64,
    "vocab_size": 32000,
    "tie_word_embeddings": False,
    "max_position_embeddings": 32768,
    "decoder_sparse_step": 1,
    "mlp_only_layers": [],
    "norm_topk_prob": True,
}


def test_the_output_of_experts_is_saved_for_the_routers_gradient(tmp_path: Path) -> None:
    """The weights of the chosen experts come out of topk and train, so that the product with them saves the second
    grouped product too (transformers/integrations/moe.py, grouped_mm_experts_forward): per layer 2 x 1024 tokens x 4
    experts, in bf16, of 2 x 512 (gate and up) and of 1024."""
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    settings = {
        "precision.weights": "bf16",
        "precision.compute": "bf16",
        "precision.autocast": False,
        "batch.micro": 2,
        "batch.sequence": 1024,
    }
    plan = oomph.plan(tmp_path, settings=settings, replay=False)
    terms = plan.worst.phases[Phase.FORWARD].terms
    products = sum(term.bytes for term in terms if term.name == "results of the experts' products")
    assert products == 4 * 2 * 1024 * 4 * (2 * 512 + 1024) * 2
