"""OOM202: weights, gradients and optimizer state, whatever the batch."""

from __future__ import annotations

import pytest

from oomph.diagnose.model import Certainty
from tests.diagnose.logs import (
    ADAM_STATE,
    FORWARD,
    MODEL_TO,
    causes,
    diagnosed,
    failed,
    finding,
    gib,
    oom,
    top,
    traceback,
)

FULL = "trainable params: 6,738,415,616 || all params: 6,738,415,616 || trainable%: 100.0\n"
FP32_ADAM = "torch_dtype: float32\noptimizer: AdamW\n"
LORA = "trainable params: 4,194,304 || all params: 6,742,609,920 || trainable%: 0.0622\n"


def test_loading_is_where_weights_do_not_fit() -> None:
    diagnosis = failed(MODEL_TO, oom(allocated="76.40 GiB"))
    found = finding(diagnosis, "static_state_too_big")
    assert top(diagnosis) == "static_state_too_big"
    assert found.certainty is Certainty.LIKELY
    assert found.numbers == {"allocated_bytes": gib(76.40)}
    assert "no batch had been seen" in found.says


def test_parameters_times_bytes_pass_the_card() -> None:
    # fp32: 6,738,415,616 x (4 weights + 4 gradients + 8 Adam) = 107,814,649,856 bytes = 100.41 GiB > 79.15
    diagnosis = failed(FORWARD, oom(), before=FULL + FP32_ADAM)
    found = finding(diagnosis, "static_state_too_big")
    assert top(diagnosis) == "static_state_too_big"
    assert found.numbers["static_bytes"] == 6_738_415_616 * 16
    assert found.numbers["capacity_bytes"] == gib(79.15)
    assert "6.74 B parameters" in found.says


@pytest.mark.parametrize(
    "settings",
    [
        # 6,738,415,616 x (2 weights + 2 gradients + 4 states in the parameters' own dtype) = 50.21 GiB < 0.9 x 79.15
        "torch_dtype: bfloat16\noptimizer: AdamW\n",
        # fp32 with two 8-bit states: x (4 + 4 + 2) = 62.76 GiB
        "torch_dtype: float32\noptimizer: adamw_8bit\n",
        # an optimizer that nothing names: weights and gradients alone, x (4 + 4) = 50.21 GiB
        "torch_dtype: float32\n",
        "torch_dtype: float32\noptimizer: sgd\n",
    ],
)
def test_what_the_optimizer_does_not_keep_is_not_counted(settings: str) -> None:
    log = FULL + settings + "starting training\n"
    assert top(failed(FORWARD, oom(), before=log)) == "activations"


def test_evaluation_has_neither_gradients_nor_states() -> None:
    frames = (
        "train.py:70 in main: evaluate(model, loader)",
        "train.py:50 in evaluate: out = model(x)",
        *FORWARD[1:],
    )
    assert top(failed(frames, oom(), before=FULL + FP32_ADAM)) == "eval_generation"


def test_a_lora_of_the_same_model_fits() -> None:
    # bf16: 6,742,609,920 x 2 = 12.56 GiB
    diagnosis = failed(FORWARD, oom(), before=LORA + "torch_dtype: bfloat16\n***** Running training *****\n")
    assert top(diagnosis) == "activations"
    assert "static_bytes" not in {name for one in diagnosis.findings for name in one.numbers}


def test_steps_that_passed_disprove_the_arithmetic() -> None:
    log = FULL + "torch_dtype: float32\n" + "".join(f"step {n} loss 2.{n}\n" for n in range(1, 6))
    diagnosis = failed(FORWARD, oom(), before=log)
    assert top(diagnosis) == "activations"
    assert "static_state_too_big" not in causes(diagnosis)


def test_sharded_jobs_are_not_judged_by_the_whole_model() -> None:
    before = FULL + "torch_dtype: float32\nframework: deepspeed\n[deepspeed] zero_optimization: {stage: 3}\n"
    diagnosis = failed(FORWARD, oom(), before=before + "deepspeed=ds_zero3.json, bf16=False\n")
    assert top(diagnosis) == "activations"


def test_the_first_step_is_possible_beside_activations() -> None:
    diagnosis = failed(FORWARD, oom(), before="***** Running training *****\n")
    assert top(diagnosis) == "activations"
    assert finding(diagnosis, "static_state_too_big").certainty is Certainty.POSSIBLE


def test_the_batch_finder_went_down_to_nothing() -> None:
    error = "RuntimeError: No executable batch size found, reached zero."
    diagnosis = diagnosed(traceback(["train.py:60 in main: inner_training_loop()"], error))
    assert top(diagnosis) == "static_state_too_big"


def test_a_gathered_unit_is_only_possible() -> None:
    frames = (
        *FORWARD,
        (
            "torch/distributed/fsdp/_fully_shard/_fsdp_param_group.py:551 in pre_forward: "
            "self.unshard(self.unshard_async_op)"
        ),
        "torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py:351 in foreach_all_gather: all_gather_output = x",
    )
    diagnosis = failed(frames, oom())
    assert finding(diagnosis, "static_state_too_big").certainty is Certainty.POSSIBLE


def test_an_optimizers_first_state_is_not_called_too_big_weights() -> None:
    assert top(failed(ADAM_STATE, oom())) == "optimizer_memory"


@pytest.mark.parametrize(
    ("root", "certainty"),
    [("C:\\work\\", Certainty.LIKELY), ("/workspace/", Certainty.POSSIBLE)],
    ids=["windows", "linux"],
)
def test_more_than_the_card_is_shared_memory_on_windows_and_damage_elsewhere(
    root: str, certainty: Certainty
) -> None:
    # PyTorch holds 14.10 + 0.20 GiB on a card of 8.00 GiB
    message = oom(
        "1.00 GiB", total="8.00 GiB", free="0 bytes", process=None, allocated="14.10 GiB", cached="0.20 GiB"
    )
    text = traceback(FORWARD, message).replace("/workspace/", root)
    assert finding(diagnosed(text), "static_state_too_big").certainty is certainty
