"""The configurations that are shipped: each gives the number of parameters that the model is published with."""

from __future__ import annotations

import json

import pytest

from oomph.job import models as known
from tests.tracing.libraries.harness import program

#: Parameters as the models' pages on the hub give them (of the safetensors file, tied weights once).
PUBLISHED = {
    "meta-llama/Llama-2-7b-hf": 6_738_415_616,
    "meta-llama/Meta-Llama-3-8B": 8_030_261_248,
    "meta-llama/Llama-3.1-8B": 8_030_261_248,
    "meta-llama/Llama-3.2-1B": 1_235_814_400,
    "meta-llama/Llama-3.2-3B": 3_212_749_824,
    "TinyLlama/TinyLlama-1.1B-Chat-v1.0": 1_100_048_384,
    "HuggingFaceTB/SmolLM2-135M": 134_515_008,
    "mistralai/Mistral-7B-v0.1": 7_241_732_096,
    "Qwen/Qwen2.5-0.5B": 494_032_768,
    "Qwen/Qwen2.5-1.5B": 1_543_714_304,
    "Qwen/Qwen2.5-7B": 7_615_616_512,
    "Qwen/Qwen3-0.6B": 596_049_920,
    "Qwen/Qwen3-8B": 8_190_735_360,
    "google/gemma-2b": 2_506_172_416,
    "google/gemma-2-2b": 2_614_341_888,
    "google/gemma-3-1b-it": 999_885_952,
    "microsoft/phi-2": 2_779_683_840,
    "microsoft/Phi-3-mini-4k-instruct": 3_821_079_552,
    "gpt2": 124_439_808,
    "facebook/opt-125m": 125_239_296,
    "facebook/opt-6.7b": 6_658_473_984,
    "t5-small": 60_506_624,
    "bert-base-uncased": 109_482_240,
    "roberta-base": 124_645_632,
    "distilbert-base-uncased": 66_362_880,
    "google/vit-base-patch16-224": 86_567_656,
}


def test_published_numbers_of_parameters() -> None:
    seen = program(
        f"""
        import json, torch
        from transformers import AutoConfig, AutoModel, AutoModelForCausalLM, AutoModelForImageClassification
        from transformers import AutoModelForSeq2SeqLM
        classes = {{"t5": AutoModelForSeq2SeqLM, "vit": AutoModelForImageClassification}}
        classes |= dict.fromkeys(("bert", "roberta", "distilbert"), AutoModel)
        counts = {{}}
        for name in {sorted(PUBLISHED)!r}:
            config = AutoConfig.from_pretrained(name)
            config.num_labels = 1000
            with torch.device("meta"):
                model = classes.get(config.model_type, AutoModelForCausalLM).from_config(config)
            counts[name] = sum(one.numel() for one in model.parameters())
        print(json.dumps(counts))
        """
    )
    assert json.loads(seen.printed) == PUBLISHED


def test_a_name_is_found_in_any_case_and_under_its_other_names() -> None:
    found = known.find("META-LLAMA/meta-llama-3.1-8b")
    assert found is not None
    assert found.name == "meta-llama/Meta-Llama-3.1-8B"
    assert found.config["hidden_size"] == 4096
    assert known.find("nobody/nothing") is None


@pytest.mark.parametrize("name", known.names())
def test_ids_of_special_tokens_fit_the_embedding(name: str) -> None:
    model = known.find(name)
    assert model is not None
    facts = model.tokenizer
    if facts is None:  # a model whose tokenizer is not shipped, or that has none
        assert "model_type" in model.config or "_class_name" in model.config
        return
    assert facts.length <= model.config.get("vocab_size", 30522) + (1 if "gemma-3" in name else 0)
    ids = [
        facts.bos,
        facts.eos,
        facts.pad,
        facts.unk,
        facts.cls,
        facts.sep,
        facts.mask,
        *facts.tokens.values(),
    ]
    assert all(0 <= one < facts.length for one in ids if one is not None)
    if facts.adds == "bos":
        assert facts.bos is not None
    if facts.adds == "eos":
        assert facts.eos is not None
    if facts.adds == "cls":
        assert facts.cls is not None
        assert facts.sep is not None
