"""Which form of a class is played, what of experts is refused by name, and what is taken for granted."""

from __future__ import annotations

import msgspec
import pytest

import oomph
from oomph.errors import UsageError
from oomph.job.model import Dimension, Evaluation, Framework, Job, Lora, Method, Model, Parallel, Precision
from oomph.job.names import model as model_named
from oomph.predict.compose import choice, experts, supported
from tests.predict.moe.cases import CONFIGS, case

BF16 = Precision(weights="bf16", compute="bf16")


def with_fields(model: Model, **fields: object) -> Model:
    kept = [each for each in model.config if each.key not in fields]
    made = [Dimension(key=key, value=value) for key, value in fields.items()]  # type: ignore[arg-type]
    return msgspec.structs.replace(model, config=tuple(sorted((*kept, *made), key=lambda each: each.key)))


@pytest.mark.parametrize(
    ("name", "form", "dense"),
    [
        ("deepseek-ai/DeepSeek-V2-Lite", "plain_queries", 1),
        ("deepseek-ai/DeepSeek-V2", "", 1),
        ("deepseek-ai/DeepSeek-V3", "", 3),
        ("Qwen/Qwen3-30B-A3B", "", 0),
        ("openai/gpt-oss-20b", "", 0),
    ],
)
def test_forms_of_well_known_models(name: str, form: str, dense: int) -> None:
    model = model_named(name)
    assert experts.form(model) == form
    assert experts.dense_layers(model) == dense


def test_layers_of_two_kinds() -> None:
    sections = ("before", "dense", "block", "after", "loss")
    model = model_named("deepseek-ai/DeepSeek-V3")
    assert [choice.kind(model, layer, sections) for layer in range(5)] == ["dense"] * 3 + ["block"] * 2
    sinks = model_named("openai/gpt-oss-20b")
    kinds = [choice.kind(sinks, layer, ("block", "full")) for layer in range(4)]
    assert kinds == ["block", "full", "block", "full"]


def test_router_of_deepseek_v3() -> None:
    """configuration_deepseek_v3.py: 256 experts in 8 groups, of which 4 are chosen."""
    found = experts.router(model_named("deepseek-ai/DeepSeek-V3"))
    assert found == {"router_groups": 8, "router_width": 32, "router_kept": 4}
    assert experts.router(model_named("mistralai/Mixtral-8x7B-v0.1")) == {}


def job(name: str, **parts: object) -> Job:
    found = case(name).job()
    return msgspec.structs.replace(found, **parts)


def lora(*targets: str) -> Method:
    return Method(name="lora", lora=Lora(targets=targets))


@pytest.mark.parametrize(
    ("found", "named"),
    [
        (job("qwen3_moe", method=lora("q_proj", "gate_proj")), "adapters on experts .gate_proj, which PEFT"),
        (job("mixtral", method=lora("all-linear")), "adapters on experts .all-linear"),
        (
            job("deepseek_v2", precision=BF16, parallel=Parallel(strategy="fsdp2_full", data=8)),
            "FSDP of deepseek_v2 with bf16 weights",
        ),
        (job("deepseek_v3", evaluation=Evaluation(batch=1, generate=8)), "generation by deepseek_v3"),
        (
            job("deepseek_v2", model=with_fields(case("deepseek_v2").job().model, topk_method="greedy")),
            "deepseek_v2 whose router is greedy with compressed queries",
        ),
        (
            job("deepseek_v3", model=with_fields(case("deepseek_v3").job().model, rope_interleave=False)),
            "rotated dimensions are not interleaved",
        ),
        (
            job("qwen3_moe", model=with_fields(case("qwen3_moe").job().model, mlp_only_layers=(0,))),
            "layers without experts among those of qwen3_moe",
        ),
        (
            job("mixtral", model=with_fields(case("mixtral").job().model, output_router_logits=True)),
            "the auxiliary loss of routers",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_not_modelled_is_named(found: Job, named: str) -> None:
    with pytest.raises(UsageError, match=named):
        supported.check(found)


@pytest.mark.parametrize("name", CONFIGS)
def test_small_models_are_planned(name: str) -> None:
    supported.check(case(name).job())


def test_before_transformers_5_experts_were_linear_layers() -> None:
    old = Framework(name="transformers", versions=(("transformers", "4.48.0"),))
    supported.check(job("mixtral", framework=old, method=lora("w1", "q_proj")))


@pytest.mark.parametrize(
    ("name", "settings", "said"),
    [
        ("openai/gpt-oss-20b", {}, ("MXFP4 weights are made bf16", "gpt_oss runs eager attention")),
        ("deepseek-ai/DeepSeek-V2-Lite", {}, ("Routers' weights",)),
        ("Qwen/Qwen3-30B-A3B", {}, ("Experts run as products of groups of rows",)),
        (
            "Qwen/Qwen3-30B-A3B",
            {"parallel.expert": 8},
            ("Experts are spread as torchtitan", "2 times as many"),
        ),
    ],
)
def test_what_is_taken_for_granted(name: str, settings: dict[str, object], said: tuple[str, ...]) -> None:
    usual: dict[str, object] = {"parallel.strategy": "fsdp2_full"}
    plan = oomph.plan(name, gpu="h200x8", settings={**usual, **settings}, replay=False)
    assert not plan.unsupported
    for words in said:
        assert any(words in each for each in plan.assumptions), words
