"""Adapters' targets: names, or one pattern, as PEFT takes them."""

from __future__ import annotations

import pytest

from oomph.errors import UsageError
from oomph.job.model import Dimension, Job, Lora, Method, Model
from oomph.predict.compose import supported
from oomph.predict.compose.run import setup_of
from oomph.predict.compose.targets import names
from oomph.predict.frameworks import variants

_SIZES = {
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 12,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "vocab_size": 1000,
}


def _job(*targets: str) -> Job:
    config = tuple(Dimension(key=key, value=_SIZES[key]) for key in sorted(_SIZES))
    return Job(
        model=Model(name="small", family="llama", config=config),
        method=Method(name="lora", lora=Lora(rank=8, targets=targets)),
    )


def _adapted(*targets: str) -> set[str]:
    job = _job(*targets)
    setup = setup_of(job, variants(job)[0])
    return {each.module for each in setup.architecture.parameters if setup.adapts(each)}


@pytest.mark.parametrize(
    "targets",
    [("q_proj", "v_proj"), ("self_attn.q_proj", "self_attn.v_proj"), (r".*layers\.\d+\..*(q_proj|v_proj)",)],
)
def test_names_and_a_pattern_say_the_same(targets):
    assert _adapted(*targets) == {"q_proj", "v_proj"}


@pytest.mark.parametrize(
    ("targets", "module", "named"),
    [
        (["q_proj"], "model.layers.0.self_attn.q_proj", True),
        (["proj"], "model.layers.0.self_attn.q_proj", False),
        (["q_proj|v_proj"], "model.layers.0.self_attn.q_proj", False),
        ([".*q_proj", ".*v_proj"], "model.layers.0.self_attn.q_proj", False),
        (["layers.1.self_attn.q_proj"], "model.layers.11.self_attn.q_proj", False),
    ],
)
def test_as_peft_decides(targets, module, named):
    peft = pytest.importorskip("peft")
    from peft.tuners.tuners_utils import check_target_module_exists

    pattern = targets[0] if len(targets) == 1 and set(targets[0]) & set("|*") else targets
    config = peft.LoraConfig(target_modules=pattern)
    assert bool(check_target_module_exists(config, module)) is named
    assert names(targets, module) is named


def test_a_pattern_of_some_layers_is_refused():
    with pytest.raises(UsageError, match=r"^unsupported: adapters on q_proj in some of the layers"):
        _adapted(r".*layers\.[0-3]\.self_attn\.q_proj")


def test_a_pattern_that_fits_nothing_is_refused():
    with pytest.raises(UsageError, match=r"adapters' targets '.[*]nothing', which fit no module"):
        supported.check(_job(".*nothing"))


def test_what_is_no_pattern_is_said():
    with pytest.raises(UsageError, match=r"is none: "):
        _adapted("(q_proj")
