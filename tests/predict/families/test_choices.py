"""Which program a model runs, and what is refused by name."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from oomph.errors import UsageError
from oomph.job.defaults import with_defaults
from oomph.job.model import Batch, Dimension, Hardware, Job, Model
from oomph.predict.compose import supported
from oomph.predict.compose.choice import kind, window
from oomph.predict.compose.run import setup_of
from oomph.predict.frameworks import variants
from tests.predict.families.cases import BERT, CASES, LLAMA, VIT

BY_NAME = {case.name: case for case in CASES}


def model(family, config, **more):
    fields = {**config, **more}
    return Model(
        name="small",
        family=family,
        config=tuple(Dimension(key=key, value=fields[key]) for key in sorted(fields)),
    )


def setup(job):
    return setup_of(job, variants(job)[0])


def test_a_head_that_was_not_recorded_is_refused():
    case = replace(BY_NAME["bert-classifier"], architecture="BertForTokenClassification")
    with pytest.raises(UsageError, match=r"^unsupported: token classification with transformers's bert"):
        _ = setup(case.job()).variant


def test_what_an_encoder_is_trained_for_is_an_assumption():
    sentences = supported.assumptions(BY_NAME["bert-classifier"].job())
    assert any("classification of sequences" in each and "BertForMaskedLM" in each for each in sentences)


def test_images_of_another_size_are_refused():
    job = msgspec.structs.replace(BY_NAME["vit"].job(), batch=Batch(micro=1, sequence=None, image_size=384))
    with pytest.raises(UsageError, match="images of 384 pixels with positions for 224"):
        supported.check(job)


def test_images_with_a_language_model_are_refused():
    job = Job(model=model("llama", LLAMA), batch=Batch(image_size=224))
    with pytest.raises(UsageError, match="images with the family llama"):
        supported.check(job)


def test_nobody_has_to_say_how_large_the_images_of_a_model_are():
    job, sentences = with_defaults(Job(model=model("vit", VIT)), ())
    assert job.batch.sequence is None
    assert job.batch.image_size == 224
    assert not any("tokens" in each for each in sentences)


def test_text_is_no_longer_than_the_positions_that_were_learned():
    """RoBERTa counts positions from the padding's number on: 512 of its 514 are left."""
    job, _ = with_defaults(
        Job(model=model("roberta", {**BERT, "max_position_embeddings": 514, "pad_token_id": 1})), ()
    )
    assert job.batch.sequence == 512


@pytest.mark.parametrize(
    ("gpu", "attention", "has"),
    [
        ("t4", "sdpa", "aten._safe_softmax"),
        ("v100-16gb", "sdpa", "aten._safe_softmax"),
        ("a100-80gb", "sdpa", "aten._scaled_dot_product_flash_attention"),
        ("a100-80gb", "sdpa_math", "aten._safe_softmax"),
        ("t4", "eager", "aten._softmax"),
    ],
)
def test_grouped_heads_without_a_flash_kernel_run_as_ordinary_operators(gpu, attention, has):
    case = replace(BY_NAME["llama-t4-fp16"], gpu=gpu)
    job = msgspec.structs.replace(case.job(), attention=attention)
    items = setup(job).program.sections["block"].items
    names = {item[1].rpartition(".")[0] for item in items if item[0] == "op"}
    assert has in names


def test_ordinary_operators_for_heads_that_are_not_grouped_are_refused():
    case = replace(BY_NAME["llama-t4-fp16"], config={**LLAMA, "num_key_value_heads": 16})
    job = msgspec.structs.replace(case.job(), attention="sdpa_math")
    with pytest.raises(UsageError, match="sdpa_math with heads that are not grouped"):
        _ = setup(job).variant


def test_windows():
    """A mask is made where the keys are as many as the window: half of what ModernBERT's configuration names."""
    assert window(model("modernbert", {"local_attention": 128})) == 64
    assert window(model("mistral", {})) == 4096
    assert window(model("mistral", {"sliding_window": None})) is None
    assert window(model("qwen2", {"sliding_window": 4096})) is None
    assert window(model("llama", {})) is None


def test_a_window_that_was_not_recorded_is_refused():
    job = Job(
        model=model("qwen2", {**LLAMA, "use_sliding_window": True, "sliding_window": 128}),
        batch=Batch(micro=1, sequence=256),
        hardware=Hardware(gpu="a100-80gb"),
    )
    with pytest.raises(UsageError, match=r"attention's window \(128\) has not been recorded"):
        _ = setup(job).variant


def test_kinds_of_layers():
    """Gemma 3: the last of six attends to all. ModernBERT: the first of three, and its first layer has no norm."""
    sections = ("before", "block", "full", "after", "loss")
    gemma = model("gemma3_text", {})
    assert [kind(gemma, layer, sections) for layer in range(7)] == ["block"] * 5 + ["full", "block"]
    modern = model("modernbert", {})
    found = [kind(modern, layer, (*sections, "first")) for layer in range(7)]
    assert found == ["first", "block", "block", "full", "block", "block", "full"]
    said = model("modernbert", {"layer_types": ("full_attention", "full_attention", "sliding_attention")})
    assert [kind(said, layer, sections) for layer in range(3)] == ["full", "full", "block"]
    assert kind(gemma, 5, ("before", "block", "after", "loss")) == "block"
