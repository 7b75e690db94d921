from __future__ import annotations

import pytest

from oomph.phases import Phase
from oomph.remedy.setup import on_unsupported_platform, setup_of, torch_release
from tests.remedy.cases import case_of

ADAM: dict[str, str | int] = {"optimizer": "AdamW", "trainable_params": 10**9}


@pytest.mark.parametrize(
    ("facts", "width"),
    [
        ({"dtype": "fp32"}, 8),
        ({"mixed_precision": "bf16"}, 8),
        ({"dtype": "bf16"}, 4),
        ({"dtype": "bf16", "zero_stage": 2}, 8),  # DeepSpeed keeps fp32 copies and states
        ({}, None),
        ({"dtype": "fp32", "optimizer": "SGD"}, None),
        ({"dtype": "fp32", "optimizer": "adamw_bnb_8bit"}, None),
    ],
)
def test_adams_states_have_the_width_of_what_the_optimizer_gets(
    facts: dict[str, str | int], width: int | None
) -> None:
    case = case_of(facts={**ADAM, **facts})
    assert setup_of(case).adam_bytes_per_parameter == width


def test_adams_states_are_divided_by_the_ranks_that_share_them() -> None:
    whole = 8 * 10**9
    assert setup_of(case_of(facts={**ADAM, "dtype": "fp32", "world_size": 4})).adam_bytes == whole
    sharded: dict[str, str | int] = {**ADAM, "dtype": "fp32", "zero_stage": 1}
    assert setup_of(case_of(facts={**sharded, "world_size": 4})).adam_bytes == whole // 4
    assert setup_of(case_of(facts=sharded)).adam_bytes is None


def test_stage_2_shards_states_and_not_parameters() -> None:
    setup = setup_of(case_of(facts={"zero_stage": 2}))
    assert setup.sharded_optimizer
    assert not setup.sharded_parameters
    assert setup_of(case_of(facts={"zero_stage": 3})).sharded_parameters
    assert not setup_of(case_of(facts={"zero_stage": 0})).sharded_optimizer


def test_a_frame_of_fsdp_shows_that_parameters_are_sharded() -> None:
    file = "/opt/venv/lib/python3.11/site-packages/torch/distributed/fsdp/fully_sharded_data_parallel.py"
    case = case_of(
        frames=[("train.py", "main", "out = model(x)"), (file, "forward", "output = self._fsdp_wrapped")]
    )
    assert setup_of(case).sharded_parameters


def test_checkpointing_is_seen_in_a_frame() -> None:
    file = "/opt/venv/lib/python3.11/site-packages/torch/utils/checkpoint.py"
    assert setup_of(
        case_of(phase=Phase.BACKWARD, frames=[(file, "backward", "outputs = ctx.run_function()")])
    ).checkpointing
    assert not setup_of(case_of(frames=[("checkpointing_notes.py", "f", "x")])).checkpointing
    assert not setup_of(case_of(facts={"checkpointing": "false"})).checkpointing


def test_the_outer_tool_decides_the_spelling() -> None:
    assert setup_of(case_of(facts={"framework": "torchtune"})).dialect == "torchtune"
    trainer = ("/x/site-packages/transformers/trainer.py", "training_step", "loss = self.compute_loss()")
    assert setup_of(case_of(facts={"framework": "deepspeed"}, frames=[trainer])).dialect == "transformers"
    assert setup_of(case_of(facts={"framework": "deepspeed"})).dialect == "deepspeed"
    assert setup_of(case_of()).dialect == ""


def test_a_model_of_transformers_in_a_loop_of_ones_own_is_plain() -> None:
    loop = ("train.py", "main", "loss = model(**batch).loss")
    assert setup_of(case_of(facts={"framework": "transformers"}, frames=[loop])).dialect == ""


def test_adapters_or_a_small_trained_part_are_partly_trained() -> None:
    assert setup_of(case_of(facts={"lora_rank": 16})).partly_trained
    assert setup_of(case_of(facts={"total_params": 7 * 10**9, "trainable_params": 4 * 10**7})).partly_trained
    assert not setup_of(
        case_of(facts={"total_params": 7 * 10**9, "trainable_params": 7 * 10**9})
    ).partly_trained
    assert not setup_of(case_of()).partly_trained


def test_platforms_without_expandable_segments() -> None:
    assert on_unsupported_platform(case_of()) == ""
    assert on_unsupported_platform(case_of(facts={"platform": "linux"})) == ""
    assert on_unsupported_platform(case_of(facts={"platform": "wsl2"})) == "WSL2"
    assert on_unsupported_platform(case_of(vendor="xpu")) == "XPU"


def test_the_release_of_torch() -> None:
    assert torch_release(case_of(facts={"torch_version": "2.5.1+cu124"})) == (2, 5)
    assert torch_release(case_of(facts={"torch_version": "nightly"})) is None
    assert torch_release(case_of()) is None


def test_trained_parameters_stand_in_for_all_unless_they_are_adapters() -> None:
    assert setup_of(case_of(facts={"trainable_params": 10**9})).params == 10**9
    assert setup_of(case_of(facts={"trainable_params": 10**7, "lora_rank": 8})).params is None
    assert setup_of(case_of(facts={"trainable_params": 10**7, "total_params": 10**9})).params == 10**9
