"""4-bit layers under autocast: what a norm in fp32 makes of the residual stream."""

from __future__ import annotations

import pytest

from oomph.job.model import (
    Batch,
    Checkpointing,
    Dimension,
    Framework,
    Job,
    Lora,
    Method,
    Model,
    Optimizer,
    Precision,
    Quantization,
)
from oomph.phases import Phase
from oomph.predict.plan import plan

HIDDEN, HEADS, BATCH = 256, 4, 2
GPT_BIGCODE = {
    "model_type": "gpt_bigcode",
    "n_embd": HIDDEN,
    "n_head": HEADS,
    "n_inner": 4 * HIDDEN,
    "n_positions": 4096,
    "vocab_size": 512,
    "multi_query": True,
    "activation_function": "gelu_pytorch_tanh",
    "tie_word_embeddings": True,
}
LLAMA = {
    "model_type": "llama",
    "hidden_size": HIDDEN,
    "num_attention_heads": HEADS,
    "num_key_value_heads": HEADS,
    "intermediate_size": 4 * HIDDEN,
    "max_position_embeddings": 4096,
    "vocab_size": 512,
    "tie_word_embeddings": True,
}


def peak(config: dict[str, object], layers: int, tokens: int, **changes: object) -> int:
    """The allocated peak of forward with one adapter module per layer, all layers checkpointed."""
    family = str(config["model_type"])
    key, target = ("n_layer", "c_attn") if family == "gpt_bigcode" else ("num_hidden_layers", "q_proj")
    pairs = {**config, key: layers}
    job = Job(
        model=Model(
            family=family,
            config=tuple(Dimension(key=name, value=pairs[name]) for name in sorted(pairs)),  # type: ignore[arg-type]
        ),
        method=Method(
            name="qlora",
            lora=Lora(rank=8, targets=(target,), dtype="fp32"),
            quantization=Quantization(kind="nf4", double=True, prepared=bool(changes.get("prepared"))),
        ),
        precision=Precision(weights="bf16", compute="bf16", autocast=bool(changes.get("autocast", True))),
        batch=Batch(micro=BATCH, sequence=tokens),
        optimizer=Optimizer(name="adamw", impl="foreach", state="fp32"),
        checkpointing=Checkpointing(mode="full"),
        attention="flash_attention_2",
        framework=Framework(
            name=str(changes.get("framework", "trl")),
            versions=(
                ("bitsandbytes", "0.43.3"),
                ("peft", "0.13.2"),
                ("torch", "2.4.1"),
                ("transformers", str(changes.get("transformers", "4.48.1"))),
            ),
        ),
    )
    found = plan(job, replay=False)
    assert not found.unsupported
    return found.ranks[0].phases[Phase.FORWARD].allocated_bytes


def a_token_of_a_layer(config: dict[str, object], **changes: object) -> float:
    """What one more layer keeps of one more token: weights and adapters cancel out."""
    more = peak(config, 5, 1024, **changes) - peak(config, 4, 1024, **changes)
    less = peak(config, 5, 512, **changes) - peak(config, 4, 512, **changes)
    return (more - less) / (512 * BATCH)


#: A checkpoint keeps the hidden state into a layer. GPTBigCode's output has keys and values besides, which are views of
#: the fused projection's result: queries of all heads, and keys and values of one.
FUSED = HIDDEN + 2 * HIDDEN // HEADS


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        # LayerNorm gives fp32 under autocast, and Linear4bit what it was given
        ({}, 4 * HIDDEN + 4 * FUSED),
        # without autocast everything is bf16
        ({"autocast": False}, 2 * HIDDEN + 2 * FUSED),
        # since 4.53 the class turns the cache off
        ({"transformers": "4.53.0"}, 4 * HIDDEN),
    ],
)
def test_what_checkpoints_of_gpt_bigcode_keep(changes: dict[str, object], expected: int) -> None:
    assert a_token_of_a_layer(GPT_BIGCODE, **changes) == expected


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        # RMSNorm gives what it was given
        ({}, 2 * HIDDEN),
        # prepare_model_for_kbit_training makes its weight fp32, and so what it gives
        ({"prepared": True}, 4 * HIDDEN),
        ({"prepared": True, "framework": "transformers"}, 4 * HIDDEN),
    ],
)
def test_what_checkpoints_of_llama_keep(changes: dict[str, object], expected: int) -> None:
    assert a_token_of_a_layer(LLAMA, **changes) == expected


def test_trl_has_embeddings_in_bf16_again() -> None:
    everything = peak(LLAMA, 4, 512, prepared=True, framework="transformers")
    # 512 words of 2 bytes more each; the output layer is the embedding
    assert everything - peak(LLAMA, 4, 512, prepared=True) >= 512 * HIDDEN * 2
