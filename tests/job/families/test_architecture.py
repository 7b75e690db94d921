"""What is said of a model as a whole."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oomph.errors import UsageError
from oomph.job.config import from_config
from oomph.job.families import FAMILIES, Parameter, architecture, dimensions, major_of
from oomph.job.model import Framework
from oomph.job.names import model
from tests.job.families.meta import model_of


def test_a_parameter_of_many_layers() -> None:
    one = Parameter("model.layers.{}.self_attn.q_proj.weight", (4, 6), "linear", range(1, 8, 2))
    assert (one.numel, one.count, one.total) == (24, 4, 96)
    assert (one.stack, one.relative, one.module) == ("model.layers", "self_attn.q_proj.weight", "q_proj")
    assert one.at(3) == "model.layers.3.self_attn.q_proj.weight"
    head = Parameter("lm_head.weight", (4, 6), "linear", tied="model.embed_tokens.weight")
    assert (head.numel, head.count, head.total, head.stack, head.relative) == (24, 1, 0, "", "lm_head.weight")


def test_llama() -> None:
    """Llama 2 7B: 4 x 4096^2 of attention, 3 x 4096 x 11008 of the feed-forward and two norms in each of 32 layers."""
    found = architecture(model("llama-2-7b"))
    layer = 4 * 4096**2 + 3 * 4096 * 11008 + 2 * 4096
    assert found.per_layer == (layer,) * 32
    assert found.total == 32 * layer + 2 * 32000 * 4096 + 4096
    assert [one.name for one in found.outside] == [
        "model.embed_tokens.weight",
        "model.norm.weight",
        "lm_head.weight",
    ]
    assert found.stacks == ("model.layers",)
    assert found.depth() == 32
    assert (found.embedding, found.head, found.learned_positions) == ("model.embed_tokens", "lm_head", None)
    attention = tuple(f"self_attn.{name}_proj" for name in "qkvo")
    assert found.linears == (*attention, "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj")
    assert [one.relative for one in found.layer(31)][-1] == "post_attention_layernorm.weight"
    assert found.layer(32) == ()


def test_a_tied_head_takes_nothing() -> None:
    tied, untied = (architecture(model_of("qwen2", tie_word_embeddings=value)) for value in (True, False))
    assert untied.total - tied.total == 151936 * 4096
    assert (
        next(one for one in tied.parameters if one.name == "lm_head.weight").tied
        == "model.embed_tokens.weight"
    )


def test_gpt2_has_learned_positions() -> None:
    found = architecture(model("gpt2"))
    assert found.learned_positions == 1024
    assert (found.embedding, found.head) == ("transformer.wte", "lm_head")


@pytest.mark.parametrize("family", ["mamba", "", "lama", "../llama", "__init__"])
def test_a_family_that_is_not_known_is_refused_by_name(family: str) -> None:
    with pytest.raises(UsageError, match=r"^unsupported: .*oomph trace") as caught:
        dimensions(model_of(family))
    assert (family or "without a model_type") in str(caught.value)


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"hidden_size": None}, "has no hidden_size"),
        ({"hidden_size": "4096"}, "hidden_size of a test is '4096'"),
        ({"hidden_size": 4096.5}, "must be a whole number"),
        ({"hidden_size": True}, "must be a whole number"),
        ({"hidden_size": -1}, "must be a whole number from 1"),
        ({"hidden_size": 2**31}, "must be a whole number from 1"),
        ({"num_hidden_layers": 10**6}, "must be a whole number from 1 to 16383"),
        (
            {"num_attention_heads": 33},
            r"num_attention_heads \(33\) of a test does not divide hidden_size \(4096\)",
        ),
        ({"tie_word_embeddings": "yes"}, "must be true or false"),
    ],
)
def test_numbers_that_make_no_sense(config: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        architecture(model_of("llama", **config))


def test_a_round_number_may_be_written_with_a_point() -> None:
    assert dimensions(model_of("llama", hidden_size=4096.0))["hidden"] == 4096


def test_the_version_of_transformers() -> None:
    assert major_of(Framework(versions=(("transformers", "4.48.1"),))) == 4
    assert major_of(Framework(name="trl", versions=(("transformers", "5.1"),))) == 5
    assert major_of(Framework()) == 5
    assert major_of(Framework(name="litgpt")) == 4


VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 2**40), st.text(max_size=3), st.lists(st.integers(0, 9))
)


@given(st.data(), st.sampled_from(sorted(FAMILIES)))
def test_any_configuration_is_understood_or_refused_in_a_sentence(data: Any, family: str) -> None:
    from importlib import import_module

    keys = sorted(import_module(f"oomph.job.families.{FAMILIES[family]}").DEFAULTS[family])
    extra = ["num_key_value_heads", "head_dim", "n_inner", "text_config", "vision_config", "architectures"]
    config = data.draw(st.dictionaries(st.sampled_from([*keys, *extra]), VALUES, max_size=3))
    small = {"num_hidden_layers": 2, "n_layer": 2, "num_layers": 2, "num_experts": 3, "depth": 2}
    found = from_config(
        {**{key: value for key, value in small.items() if key in keys}, **config, "model_type": family}
    )
    try:
        assert architecture(found).total > 0
    except UsageError:
        return
