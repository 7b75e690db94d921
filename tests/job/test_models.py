"""Shipped configurations: published numbers of parameters, and the real classes made of them."""

from __future__ import annotations

from typing import Any

import pytest

from oomph.job import models
from oomph.job.config import from_config
from oomph.job.families import FAMILIES, architecture
from oomph.job.names import shipped
from tests.job.families.meta import real_parameters, same_parameters

#: Parameters as the models' pages on the hub, their cards or papers give them (tied weights once).
PUBLISHED = {
    "meta-llama/Llama-2-7b-hf": 6_738_415_616,
    "meta-llama/Llama-2-13b-hf": 13_015_864_320,
    "meta-llama/Llama-2-70b-hf": 68_976_648_192,
    "meta-llama/Llama-3.1-8B": 8_030_261_248,
    "meta-llama/Llama-3.1-70B": 70_553_706_496,
    "meta-llama/Llama-3.1-405B": 405_853_388_800,
    "meta-llama/Llama-3.2-1B": 1_235_814_400,
    "huggyllama/llama-30b": 32_528_943_616,
    "huggyllama/llama-65b": 65_285_660_672,
    "codellama/CodeLlama-34b-hf": 33_743_970_304,
    "01-ai/Yi-6B": 6_061_035_520,
    "01-ai/Yi-34B": 34_388_917_248,
    "deepseek-ai/deepseek-llm-7b-base": 6_910_365_696,
    "deepseek-ai/deepseek-coder-33b-base": 33_342_991_360,
    "tiiuae/Falcon3-7B-Base": 7_455_550_464,
    "HuggingFaceTB/SmolLM3-3B": 3_075_098_624,
    "mistralai/Mistral-7B-v0.1": 7_241_732_096,
    "mistralai/Mistral-Nemo-Base-2407": 12_247_782_400,
    "mistralai/Mistral-Small-24B-Base-2501": 23_572_403_200,
    "mistralai/Mistral-Large-Instruct-2407": 122_610_069_504,
    "mistralai/Mixtral-8x7B-v0.1": 46_702_792_704,
    "mistralai/Mixtral-8x22B-v0.1": 140_620_634_112,
    "Qwen/Qwen2-72B": 72_706_203_648,
    "Qwen/Qwen2.5-14B": 14_770_033_664,
    "Qwen/Qwen2.5-32B": 32_763_876_352,
    "Qwen/Qwen3-8B": 8_190_735_360,
    "Qwen/Qwen1.5-MoE-A2.7B": 14_315_784_192,
    "Qwen/Qwen3-30B-A3B": 30_532_122_624,
    "Qwen/Qwen3-235B-A22B": 235_093_634_560,
    "deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B": 1_777_088_000,
    "google/gemma-2b": 2_506_172_416,
    "google/gemma-2-9b": 9_241_705_984,
    "google/gemma-2-27b": 27_227_128_320,
    "google/gemma-3-270m": 268_098_176,
    "microsoft/phi-1": 1_418_270_720,
    "microsoft/phi-2": 2_779_683_840,
    "microsoft/Phi-3-medium-4k-instruct": 13_960_238_080,
    "microsoft/phi-4": 14_659_507_200,
    "microsoft/Phi-4-mini-instruct": 3_836_021_760,
    "allenai/OLMo-1B-hf": 1_176_764_416,
    "allenai/OLMo-7B-hf": 6_888_095_744,
    "allenai/OLMo-2-0425-1B": 1_484_916_736,
    "allenai/OLMo-2-1124-13B": 13_716_198_400,
    "allenai/OLMo-2-0325-32B": 32_234_279_936,
    "allenai/OLMoE-1B-7B-0924": 6_919_161_856,
    "bigcode/starcoder2-3b": 3_030_371_328,
    "bigcode/starcoder2-15b": 15_957_889_024,
    "bigcode/starcoder": 15_517_456_384,
    "bigcode/starcoderbase-1b": 1_137_207_296,
    "stabilityai/stablelm-3b-4e1t": 2_795_443_200,
    "stabilityai/stablelm-2-1_6b": 1_644_515_328,
    "tiiuae/falcon-7b": 6_921_720_704,
    "tiiuae/falcon-40b": 41_303_293_952,
    "EleutherAI/gpt-j-6b": 6_050_882_784,
    "EleutherAI/gpt-neox-20b": 20_554_567_680,
    "EleutherAI/pythia-70m": 70_426_624,
    "EleutherAI/pythia-160m": 162_322_944,
    "EleutherAI/pythia-410m": 405_334_016,
    "EleutherAI/pythia-1b": 1_011_781_632,
    "EleutherAI/pythia-1.4b": 1_414_647_808,
    "EleutherAI/pythia-2.8b": 2_775_208_960,
    "EleutherAI/pythia-6.9b": 6_857_302_016,
    "EleutherAI/pythia-12b": 11_846_072_320,
    "bigscience/bloom-560m": 559_214_592,
    "bigscience/bloom-1b7": 1_722_408_960,
    "bigscience/bloom-7b1": 7_069_016_064,
    "bigscience/bloom": 176_247_271_424,
    "facebook/opt-125m": 125_239_296,
    "facebook/opt-6.7b": 6_658_473_984,
    "facebook/opt-30b": 29_974_540_288,
    "gpt2": 124_439_808,
    "gpt2-xl": 1_557_611_200,
    "deepseek-ai/DeepSeek-V2": 235_741_434_880,
    "deepseek-ai/DeepSeek-V2-Lite": 15_706_484_224,
    # without e_score_correction_bias, a buffer in transformers: 58 layers with experts x 256 of 671,026,419,200
    "deepseek-ai/DeepSeek-V3": 671_026_419_200 - 58 * 256,
    "google-bert/bert-base-uncased": 109_514_298,
    "t5-small": 60_506_624,
    "google/vit-base-patch16-224": 86_567_656 - 998 * 769,  # published with 1,000 classes, here 2
    "openai/clip-vit-base-patch32": 151_277_313,
    "openai/clip-vit-large-patch14": 427_616_513,
    "llava-hf/llava-1.5-7b-hf": 7_063_427_072,
    "Qwen/Qwen2-VL-2B-Instruct": 2_208_985_600,
    "Qwen/Qwen2-VL-7B-Instruct": 8_291_375_616,
    "Qwen/Qwen2-VL-72B-Instruct": 73_405_560_320,
    "Qwen/Qwen2.5-VL-3B-Instruct": 3_754_622_976,
    "Qwen/Qwen2.5-VL-7B-Instruct": 8_292_166_656,
    "Qwen/Qwen2.5-VL-72B-Instruct": 73_410_777_344,
    "google/gemma-3-4b-it": 4_300_079_472,
    "google/gemma-3-12b-it": 12_187_325_040,
    "google/gemma-3-27b-it": 27_432_406_640,
    "black-forest-labs/FLUX.1-dev": 11_901_408_320,
    "stabilityai/stable-diffusion-xl-base-1.0": 2_567_463_684,
    "stable-diffusion-v1-5/stable-diffusion-v1-5": 859_520_964,
    "stabilityai/stable-diffusion-2-1": 865_910_724,
    "openai/gpt-oss-20b": 20_914_757_184,
    "openai/gpt-oss-120b": 116_829_156_672,
}


@pytest.mark.parametrize(("name", "parameters"), PUBLISHED.items())
def test_published_numbers_of_parameters(name: str, parameters: int) -> None:
    found = shipped(name)
    assert found is not None
    assert architecture(found).total == parameters
    assert architecture(found, 4).total == parameters


def _one_of_each_kind() -> list[str]:
    """A shipped model of each entry of `families` in the data files."""
    kinds: dict[tuple[Any, ...], str] = {}
    for name in models.names():
        known = models.find(name)
        assert known is not None
        config = {key: value for key, value in known.config.items() if isinstance(value, (bool, str))}
        # XLM-RoBERTa's order is not its class's: tests/job/families/test_encoders.py
        if config.get("model_type") in FAMILIES and config["model_type"] != "xlm-roberta":
            kinds.setdefault((config["model_type"], tuple(sorted(config.items()))), name)
    return list(kinds.values())


def _auto(name: str) -> str:
    """The class of transformers that makes a model of that class."""
    for end, auto in (
        ("T5ForConditionalGeneration", "AutoModelForSeq2SeqLM"),
        ("ForConditionalGeneration", "AutoModelForImageTextToText"),
        ("ForImageClassification", "AutoModelForImageClassification"),
        ("ForMaskedLM", "AutoModelForMaskedLM"),
        ("Model", "AutoModel"),
    ):
        if name.endswith(end) and not name.endswith("LMHeadModel"):
            return auto
    return "AutoModelForCausalLM"


@pytest.mark.parametrize("name", _one_of_each_kind())
def test_every_parameter_of_the_real_class(name: str) -> None:
    known = models.find(name)
    assert known is not None
    config = {key: value for key, value in known.config.items() if key != "model_type"}
    family = known.config["model_type"]
    same_parameters(
        architecture(from_config(known.config)),
        real_parameters(family, config, _auto(known.config["architectures"][0])),
    )


def test_every_model_has_a_source_and_is_of_one_family() -> None:
    assert len(models.names()) > 300
    assert len(set(models.names())) == len(models.names())
    for name in models.names():
        known = models.find(name)
        assert known is not None
        config = known.config
        assert "_class_name" in config or (config["model_type"] and config["architectures"])
