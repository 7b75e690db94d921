"""Evaluation and generation."""

from __future__ import annotations

import pytest

from oomph.diagnose.model import Step
from oomph.phases import Phase
from oomph.remedy.actions import all_actions
from tests.remedy.cases import case_of, finding_of

LOOP = ("/x/site-packages/transformers/trainer.py", "evaluation_loop", "self.prediction_step(model, inputs)")
OWN = ("eval.py", "validate", "out = model(x)")


def step(code: str, phase: Phase = Phase.EVAL, **case: object) -> Step:
    return all_actions()[code].step(case_of(phase=phase, **case), finding_of("eval_generation", code))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "off",
    [
        LOOP,
        ("/x/site-packages/torch/utils/_contextlib.py", "decorate_context", "return func(*args, **kwargs)"),
        ("/x/site-packages/transformers/generation/utils.py", "_sample", "outputs = self(**model_inputs)"),
    ],
)
def test_gradients_that_are_off_are_not_turned_off_again(off: tuple[str, str, str]) -> None:
    action = all_actions()["no-grad-eval"]
    assert not action.applies(case_of(phase=Phase.EVAL, frames=[off, OWN]))
    assert action.applies(case_of(phase=Phase.EVAL, frames=[OWN]))
    assert not action.applies(case_of(phase=Phase.FORWARD, frames=[OWN]))


def test_the_evaluation_batch_is_halved_and_training_left_alone() -> None:
    made = step("eval-batch", facts={"eval_batch_size": 8, "batch_size": 4, "framework": "transformers"})
    assert made.title == "Evaluation batch 8 -> 4"
    assert made.paste == "per_device_eval_batch_size=4,"
    assert "Training is not touched." in made.text


def test_the_trainers_own_setting_moves_outputs() -> None:
    assert "eval_accumulation_steps" in step("eval-accumulation", frames=[LOOP]).paste
    assert ".cpu()" in step("eval-accumulation", frames=[OWN]).paste


def test_generation_is_limited_only_where_something_generates() -> None:
    assert "max_new_tokens" in step("generate-shorter", Phase.GENERATE).paste
    assert not all_actions()["generate-shorter"].applies(case_of(phase=Phase.EVAL))


def test_inference_mode_is_pasted() -> None:
    assert "torch.inference_mode()" in step("no-grad-eval", frames=[OWN]).paste
