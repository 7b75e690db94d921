"""Scripts as users have them, tiny: what parameters, gradients and states take is arithmetic on the configuration."""

from __future__ import annotations

from tests.tracing.libraries.harness import script

# causal_lm_trainer.py: hidden 64, MLP 128, 2 layers, 4 heads of 16 with 2 for keys and values, 50257 tokens, untied.
_LAYER = 64 * 64 + 2 * 64 * 32 + 64 * 64 + 3 * 64 * 128 + 2 * 64
_LLAMA = 2 * 50257 * 64 + 2 * _LAYER + 64
# Buffers count with the parameters: the inverse frequencies, twice, of half a head in float32.
_LLAMA_BUFFERS = 2 * 8 * 4
_LLAMA_TENSORS = 2 + 2 * 9 + 1


def test_trainer_of_a_causal_lm() -> None:
    seen = script("causal_lm_trainer", "--evaluate")
    assert seen.answer["steps"] == 2
    assert "steps 2" in seen.printed
    assert seen.most["parameters"] == 4 * _LLAMA + _LLAMA_BUFFERS
    assert seen.most["gradients"] == 4 * _LLAMA
    # Fused AdamW: two moments, and a step counter of 4 bytes on the device for each tensor.
    assert seen.last["optimizer state"] == 2 * 4 * _LLAMA + 4 * _LLAMA_TENSORS
    assert {"forward", "backward", "optimizer", "eval"} <= set(seen.answer["phases"])
    assert "the tokenizer of gpt2 is not on this machine" in seen.said


def test_accumulation_and_checkpointing_change_nothing_that_stays() -> None:
    seen = script("causal_lm_trainer", "--accumulation", "2", "--checkpointing", steps=1)
    assert seen.most["gradients"] == 4 * _LLAMA
    assert seen.last["optimizer state"] == 2 * 4 * _LLAMA + 4 * _LLAMA_TENSORS


# sft_lora.py on the first 2 layers of SmolLM2-135M: hidden 576, MLP 1536, 9 heads of 64 with 3 for keys and values,
# 49152 tokens, tied.
_SMOL_LINEAR = 2 * (2 * 576 * 576 + 2 * 576 * 192 + 3 * 576 * 1536)
_SMOL_REST = 49152 * 576 + 2 * 2 * 576 + 576
# Inverse frequencies, twice, of half a head in float32.
_SMOL_BUFFERS = 2 * 32 * 4
# LoRA of rank 8 on q (576 to 576) and v (576 to 192).
_LORA = 2 * 8 * ((576 + 576) + (576 + 192))


def test_lora() -> None:
    seen = script("sft_lora", "--layers", "2")
    assert f"trainable {_LORA}" in seen.printed
    # The model in bfloat16, the adapters in float32 (peft casts them up).
    assert seen.last["parameters"] == 2 * (_SMOL_LINEAR + _SMOL_REST) + 4 * _LORA + _SMOL_BUFFERS
    assert seen.most["gradients"] == 4 * _LORA
    assert seen.last["optimizer state"] == 2 * 4 * _LORA
    assert "TRL's loss runs its Triton kernels" in seen.said


def test_qlora() -> None:
    seen = script("sft_lora", "--layers", "2", "--quantise", "4bit", "--checkpointing")
    # Packed weights take half a byte each. TRL casts the adapters of a quantised model to bfloat16.
    assert seen.last["parameters"] == _SMOL_LINEAR // 2 + 2 * _SMOL_REST + 2 * _LORA + _SMOL_BUFFERS
    # Checkpointing makes the embedding's result, 64 tokens wide 576, want a gradient of its own.
    assert seen.most["gradients"] == 2 * _LORA + 2 * 64 * 576
    assert seen.last["optimizer state"] == 2 * 2 * _LORA


def test_int8_lora() -> None:
    seen = script("sft_lora", "--layers", "2", "--quantise", "8bit", steps=1)
    assert seen.last["parameters"] == _SMOL_LINEAR + 2 * _SMOL_REST + 2 * _LORA + _SMOL_BUFFERS
    assert "LLM.int8() finds no outlier columns" in seen.said


# vit_classification.py: hidden 48, MLP 96, 2 layers, images of 32 pixels in 16 patches of 8, 10 labels.
_VIT_LAYER = 4 * (48 * 48 + 48) + 2 * 48 * 96 + 96 + 48 + 4 * 48
_VIT = 48 + 17 * 48 + (3 * 8 * 8 * 48 + 48) + 2 * _VIT_LAYER + 2 * 48 + 48 * 10 + 10


def test_vit_with_a_gradient_scaler() -> None:
    seen = script("vit_classification", "--fp16")
    assert seen.answer["steps"] == 2
    assert seen.most["parameters"] == 4 * _VIT
    assert seen.most["gradients"] == 4 * _VIT
    assert seen.last["optimizer state"] >= 2 * 4 * _VIT
    assert "no gradient is infinite" in seen.said


# bert_accelerate.py: hidden 32, MLP 64, 2 layers, 30522 tokens, 512 positions, 2 kinds of sentence.
_BERT_LAYER = 4 * (32 * 32 + 32) + 2 * 32 * 64 + 64 + 32 + 4 * 32
_BERT = (30522 + 512 + 2) * 32 + 2 * 32 + 2 * _BERT_LAYER + (32 * 32 + 32) + 2 * 32 + 2


def test_bert_in_a_loop_of_accelerate() -> None:
    seen = script("bert_accelerate", steps=None)
    assert seen.answer["steps"] == 4
    # Its buffers are 512 numbers of positions and as many kinds of sentence, of 8 bytes.
    assert seen.most["parameters"] == 4 * _BERT + 2 * 512 * 8
    assert seen.most["gradients"] == 4 * _BERT
    assert seen.last["optimizer state"] == 2 * 4 * _BERT
    assert "eval" in seen.answer["phases"]
    assert "a stand-in has its columns" in seen.said


# t5_summarise.py: width 32, 4 heads of 8, MLP 64, 2 + 2 layers, 32128 tokens, 32 buckets of relative positions.
_T5_ATTENTION = 4 * 32 * 32
_T5_ENCODER = 2 * (_T5_ATTENTION + 2 * 32 * 64 + 2 * 32) + 32 + 32 * 4
_T5_DECODER = 2 * (2 * _T5_ATTENTION + 2 * 32 * 64 + 3 * 32) + 32 + 32 * 4
_T5 = 32128 * 32 + _T5_ENCODER + _T5_DECODER


def test_t5_that_evaluates_by_generating() -> None:
    seen = script("t5_summarise", "--optimizer", "adamw_torch")
    assert "done" in seen.printed
    assert seen.most["parameters"] == 4 * _T5
    assert seen.most["gradients"] == 4 * _T5
    assert seen.last["optimizer state"] == 2 * 4 * _T5
    assert "generate" in seen.answer["phases"]
    assert "generated sequences run to their longest length" in seen.said
