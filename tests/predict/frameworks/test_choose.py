from __future__ import annotations

import msgspec
import pytest

from oomph.job.model import (
    Framework,
    Hardware,
    Job,
    LossName,
    Method,
    MethodName,
    Model,
    Optimizer,
    OptimizerImpl,
    Parallel,
    Precision,
    Quantization,
    Strategy,
)
from oomph.predict.frameworks import Code, code_for, variants


def job(
    name: str = "",
    loss: LossName = "default",
    method: MethodName = "full",
    impl: OptimizerImpl = "foreach",
    strategy: Strategy = "none",
    compiled: bool = False,
    autocast: bool = False,
    versions: dict[str, str] | None = None,
) -> Job:
    return Job(
        framework=Framework(name=name, versions=tuple(sorted((versions or {}).items()))),
        loss=loss,
        method=Method(name=method, quantization=Quantization(kind="nf4") if method == "qlora" else None),
        optimizer=Optimizer(impl=impl),
        parallel=Parallel(strategy=strategy),
        precision=Precision(weights="bf16", compute="bf16", autocast=autocast),
        compile=compiled,
    )


@pytest.mark.parametrize(
    ("version", "program"),
    [
        ("4.45.2", "transformers-4.45-llama"),
        ("4.46.0", "transformers-4.48-llama"),
        ("4.48.1", "transformers-4.48-llama"),
        ("4.49.0", "transformers-llama"),
        ("5.13.1", "transformers-llama"),
    ],
)
def test_the_version_of_transformers_decides_the_program(version: str, program: str) -> None:
    codes = variants(job("transformers", versions={"transformers": version}))
    assert [code.program("llama") for code in codes] == [program]


def test_an_unknown_version_leaves_several_codes_and_the_newest_comes_first() -> None:
    assert [code.program("llama") for code in variants(job("trl"))] == [
        "transformers-llama",
        "transformers-4.48-llama",
    ]


def test_a_job_without_a_framework_is_a_trainer_or_a_loop_that_keeps_its_outputs() -> None:
    trainer, loop = variants(job())
    assert (trainer.logits_through_backward, trainer.logits_through_step) == (False, False)
    assert (loop.logits_through_backward, loop.logits_through_step) == (True, True)


def test_old_families_without_a_program_of_their_own_are_played_by_todays() -> None:
    code = code_for(job("transformers", versions={"transformers": "4.45.2"}))
    assert code.program("gemma") == "transformers-gemma"


def test_a_plan_says_when_todays_class_stands_in_for_an_older_one() -> None:
    framework = Framework(name="transformers", versions=(("transformers", "4.48.1"),))
    (note,) = code_for(Job(framework=framework, model=Model(family="gemma"))).notes
    assert "gemma of transformers 4.46 to 4.48 is not recorded" in note
    assert code_for(Job(framework=framework, model=Model(family="llama"))).notes == ()


@pytest.mark.parametrize(
    ("name", "versions", "reentrant"),
    [
        ("transformers", {"transformers": "4.57.1"}, True),
        ("transformers", {"transformers": "5.0.0"}, False),
        ("trl", {"transformers": "4.57.1", "trl": "0.27.0"}, False),
        ("trl", {"transformers": "4.48.1", "trl": "0.13.0"}, True),
        ("axolotl", {}, True),
        ("torchtitan", {}, False),
        ("litgpt", {}, False),
        ("fsdp-qlora", {}, True),
    ],
)
def test_reentrant_checkpoints(name: str, versions: dict[str, str], reentrant: bool) -> None:
    assert code_for(job(name, versions=versions)).reentrant is reentrant


def test_accelerate_casts_outputs_under_autocast_alone() -> None:
    assert code_for(job("transformers", autocast=True)).outputs_to_fp32
    assert not code_for(job("transformers")).outputs_to_fp32


@pytest.mark.parametrize(
    ("loss", "method", "fusions"),
    [
        ("triton_ce", "full", {"rms_norm", "rope"}),
        ("fused_linear_ce", "lora", {"rms_norm", "rope"}),
        ("triton_ce", "qlora", {"rms_norm", "rope", "lora"}),
        ("fused_linear_ce", "qlora", {"rms_norm", "rope", "lora"}),
        ("eager_fp32", "qlora", set()),
    ],
)
def test_fms_accelerations_kernels_come_with_its_losses(
    loss: LossName, method: MethodName, fusions: set[str]
) -> None:
    assert (
        code_for(job("fms-acceleration", loss, method, versions={"transformers": "4.45.2"})).fusions
        == fusions
    )


def test_litgpts_script_follows_from_method_and_optimizer() -> None:
    assert code_for(job("litgpt", method="lora")).loss == "chunked_ce"
    assert code_for(job("litgpt", "chunked_ce")).loss == "full_finetune_ce"
    new = {"litgpt": "0.5.13"}
    local, pretrain = variants(job("litgpt", "chunked_ce", impl="fused", versions=new))
    assert (local.loss, local.logits_through_backward) == ("whole_ce", False)
    assert (pretrain.loss, pretrain.logits_through_backward) == ("pretrain_ce", True)
    compiled, _ = variants(job("litgpt", "chunked_ce", impl="fused", compiled=True, versions=new))
    assert compiled.logits_through_backward


@pytest.mark.parametrize(
    ("versions", "program", "kept", "stray"),
    [
        ({}, "litgpt-0.5-llama", False, True),
        ({"litgpt-date": "2024"}, "litgpt-2024-04-llama", True, False),
        ({"litgpt-date": "2024.08"}, "litgpt-2024-09-llama", True, False),
        ({"torch": "2.4.0.dev20240427"}, "litgpt-2024-04-llama", True, False),
        ({"litgpt": "0.4.5"}, "litgpt-2024-04-llama", True, False),
        ({"litgpt": "0.4.6"}, "litgpt-2024-09-llama", True, False),
        ({"litgpt": "0.5.3"}, "litgpt-2024-09-llama", True, True),
        ({"litgpt": "0.5.5"}, "litgpt-0.5-llama", False, True),
        ({"litgpt-date": "2024.08", "bitsandbytes": "0.43.3"}, "litgpt-2024-09-llama", False, False),
    ],
)
def test_litgpts_versions(versions: dict[str, str], program: str, kept: bool, stray: bool) -> None:
    code = code_for(job("litgpt", method="qlora", versions=versions))
    assert code.program("llama") == code.program("mistral") == program
    assert (code.quantized_input_kept, code.stray_embedding) == (kept, stray)
    assert code.quantizes_head
    assert code.dequantizes_twice


@pytest.mark.parametrize(
    ("versions", "program", "loss", "impl", "units"),
    [
        ({"torchtitan": "git9dec370"}, "torchtitan-2024-12-llama", "eager_fp32", "foreach", "blocks"),
        ({"torchtitan": "gite7c0cae"}, "torchtitan-2025-06-llama", "compiled_ce", "fused", "blocks"),
        ({"torchtitan-date": "2024.10"}, "torchtitan-2024-12-llama", "eager_fp32", "foreach", "blocks"),
        (
            {"torchtitan-date": "2025.09"},
            "torchtitan-2025-06-llama",
            "compiled_ce",
            "fused",
            "blocks_and_embeddings",
        ),
    ],
)
def test_torchtitan_by_date(versions: dict[str, str], program: str, loss: str, impl: str, units: str) -> None:
    (code,) = variants(job("torchtitan", strategy="fsdp2_full", compiled=True, versions=versions))
    assert code.program("llama") == program
    assert (code.loss, code.optimizer_impl, code.units) == (loss, impl, units)
    assert code.last_block_stays is (units == "blocks")
    assert not code.reduces_in_compute


def test_models_of_later_than_april_2024_are_not_of_its_code() -> None:
    when = Framework(name="litgpt", versions=(("litgpt-date", "2024"),))
    for model in (Model(family="gemma2"), Model(family="llama", name="meta-llama/Llama-3.2-1B")):
        codes = variants(Job(framework=when, model=model))
        assert [code.programs for code in codes] == ["litgpt-2024-09"]


def test_torchtitan_has_no_program_of_other_families() -> None:
    assert code_for(job("torchtitan")).program("gemma") is None


def test_torchtune_wraps_embedding_and_output_of_full_finetuning() -> None:
    assert code_for(job("torchtune", strategy="fsdp2_full")).units == "blocks_and_embeddings"
    assert code_for(job("torchtune", method="lora", strategy="fsdp2_full")).units == "blocks"


def test_lightning_frees_gradients_after_forward() -> None:
    assert code_for(job("lightning")).zero_grad == "before_backward"


def test_thunders_benchmark_leaves_the_wrapping_open() -> None:
    assert {code.units for code in variants(job("lightning-thunder", strategy="fsdp1_full_shard"))} == {
        "blocks",
        "modules",
    }
    assert {code.units for code in variants(job("lightning-thunder", strategy="fsdp2_full"))} == {
        "blocks",
        "blocks_embedding_norm_head",
    }
    assert len(variants(job("lightning-thunder"))) == 1


@pytest.mark.parametrize("name", ["unsloth", "megatron-lm", "nanotron"])
def test_what_is_not_recorded_is_said(name: str) -> None:
    assert any("transformers' classes are played" in note for note in code_for(job(name)).notes)


def test_a_code_can_be_part_of_a_key() -> None:
    assert len({Code(), Code(), code_for(job("litgpt"))}) == 2


@pytest.mark.parametrize(
    ("name", "note"),
    [("nemo", "The code of nemo is not known here"), ("unsloth", "unsloth's own kernels are not modelled")],
)
def test_code_that_is_not_known_is_not_stood_in_for_in_silence(name: str, note: str) -> None:
    assert all(len([each for each in code.notes if note in each]) == 1 for code in variants(job(name)))
    assert not any("not known here" in each for each in code_for(job("trl")).notes)


@pytest.mark.parametrize(
    ("versions", "loss", "impl"),
    [
        # the loss is compiled from 2025-04-02 on, the default optimizer fused since 2025-02-24
        ({"torchtitan-date": "2025.03"}, "eager_fp32", "fused"),
        ({"torchtitan-date": "2025.04.02"}, "compiled_ce", "fused"),
        # version 0.0.2 lasted a year: PyTorch's main branch was 2.7 from December 2024 to March 2025
        ({"torchtitan": "0.0.2", "torch": "2.7.0a0+gitb98af95"}, "eager_fp32", "fused"),
        ({"torchtitan": "0.0.2", "torch": "2.5.0"}, "eager_fp32", "foreach"),
    ],
)
def test_torchtitan_between_its_releases(versions: dict[str, str], loss: str, impl: str) -> None:
    (code,) = variants(job("torchtitan", strategy="fsdp2_full", compiled=True, versions=versions))
    assert (code.loss, code.optimizer_impl) == (loss, impl)


def test_torchtitan_of_no_known_day_leaves_both() -> None:
    codes = variants(job("torchtitan", strategy="fsdp2_full", versions={"torchtitan": "0.0.2"}))
    assert {code.optimizer_impl for code in codes} == {"fused", "foreach"}


def test_torchtitan_divides_the_loss_among_tensor_parallel_ranks() -> None:
    its = job("torchtitan", strategy="fsdp2_full", versions={"torchtitan": "git9dec370"})
    divided = msgspec.structs.replace(its, parallel=Parallel(strategy="fsdp2_full", tensor=8))
    assert code_for(its).loss == "eager_fp32"
    assert code_for(divided).loss == "loss_parallel"


@pytest.mark.parametrize(
    ("gpu", "date", "keeps"),
    [
        ("b200", "2025.05.13", True),
        ("b200", "2025.05.14", False),
        ("b200", "2025.11.30", False),
        ("b200", "2025.12.01", True),
        ("h100-sxm", "2025.08", True),
        ("", "2025.08", True),
        ("no such card", "2025.08", True),
    ],
)
def test_which_attention_torchtitan_keeps_on_blackwell(gpu: str, date: str, keeps: bool) -> None:
    its = job("torchtitan", strategy="fsdp2_full", versions={"torchtitan-date": date})
    its = msgspec.structs.replace(its, hardware=Hardware(gpu=gpu))
    assert code_for(its).selective_attention is keeps


@pytest.mark.parametrize(
    ("date", "program"),
    [("2024.08", "litgpt-2024-04-llama"), ("2024.09", "litgpt-2024-09-llama"), ("", "litgpt-2024-09-llama")],
)
def test_which_litgpt_lightning_thunder_asked_for(date: str, program: str) -> None:
    versions = {"lightning-thunder-date": date} if date else {}
    code = code_for(job("lightning-thunder", versions=versions))
    assert code.program("llama") == program
    assert code.program("gpt_neox") == "litgpt-2024-09-gpt_neox"


@pytest.mark.parametrize(
    ("family", "version", "caches"),
    [
        ("gpt_bigcode", "4.48.1", True),
        ("gpt_bigcode", "4.53.0", False),
        ("gpt_bigcode", "", False),
        ("llama", "4.48.1", False),
    ],
)
def test_which_models_return_keys_and_values_under_checkpoints(
    family: str, version: str, caches: bool
) -> None:
    its = job("trl", versions={"transformers": version} if version else None)
    its = msgspec.structs.replace(its, model=Model(family=family))
    assert code_for(its).caches_recomputed is caches


def test_answer_ai_wraps_checkpointed_layers() -> None:
    assert code_for(job("fsdp-qlora", method="lora")).checkpoints_within_units
    assert not code_for(job("trl", method="lora")).checkpoints_within_units


def test_torchtune_ties_its_output_to_its_embedding() -> None:
    assert dict(code_for(job("torchtune")).ties) == {"output.weight": "tok_embeddings.weight"}


def test_minimind_takes_the_mean_of_its_logits() -> None:
    assert code_for(job("minimind")).loss == "mean"
    assert code_for(job("minimind", loss="triton_ce")).loss == "triton_ce"
