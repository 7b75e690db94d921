"""OOM207: training fits, evaluation does not."""

from __future__ import annotations

from oomph.diagnose.model import Certainty
from tests.diagnose.logs import FORWARD, causes, failed, finding, gib, oom, steps, top

VALIDATE = (
    "train.py:150 in main: validate(model, loader)",
    "train.py:101 in validate: logits = model(x)",
    *FORWARD[1:],
)
COLLECT = (
    "transformers/trainer.py:2871 in evaluate: output = self.evaluation_loop(",
    "transformers/trainer.py:3008 in evaluation_loop: all_preds.add(logits)",
    "transformers/trainer_pt_utils.py:128 in nested_concat: return torch_pad_and_concatenate(tensors, new_tensors)",
    "transformers/trainer_pt_utils.py:86 in torch_pad_and_concatenate: return torch.cat((tensor1, tensor2), dim=0)",
)
PIPELINE = (
    "train.py:700 in main: images = log_validation(vae, unet, args, accelerator, step)",
    "train.py:160 in log_validation: pipeline = pipeline.to(accelerator.device)",
    "diffusers/pipelines/pipeline_utils.py:461 in to: module.to(device, dtype)",
    "torch/nn/modules/module.py:1369 in convert: return t.to(",
)
GENERATE = (
    "train.py:90 in sample: out = model.generate(ids, max_new_tokens=512)",
    "transformers/generation/utils.py:3008 in generate: result = decoding_method(",
    "transformers/cache_utils.py:136 in update: self.keys = torch.cat([self.keys, key_states], dim=-2)",
)


def test_a_forward_inside_a_validation() -> None:
    diagnosis = failed(VALIDATE, oom(), before=steps(1, 100))
    found = finding(diagnosis, "eval_generation")
    assert top(diagnosis) == "eval_generation"
    assert found.certainty is Certainty.LIKELY
    assert found.numbers == {"request_bytes": gib(2.00)}
    assert found.actions[0] == "no-grad-eval"
    assert "activations" not in causes(diagnosis)


def test_outputs_that_are_collected_go_to_the_cpu_first() -> None:
    found = finding(failed(COLLECT, oom(), before=steps(1, 100)), "eval_generation")
    assert found.actions[0] == "eval-accumulation"
    assert "collects its outputs" in found.says


def test_a_second_model_is_named() -> None:
    found = finding(failed(PIPELINE, oom(), before=steps(1, 100)), "eval_generation")
    assert "second model" in found.says


def test_generation_is_answered_by_its_own_batch_or_length() -> None:
    diagnosis = failed(GENERATE, oom(), before=steps(1, 100))
    assert top(diagnosis) == "eval_generation"
    assert finding(diagnosis, "eval_generation").actions[0] in ("generate-shorter", "eval-batch")


def test_an_announced_evaluation_decides_where_frames_do_not() -> None:
    frames = ("train.py:77 in main: outputs = torch.cat(outputs)",)
    diagnosis = failed(frames, oom(), before=steps(1, 100) + "Running validation\n")
    assert (str(diagnosis.phase.phase), diagnosis.phase.evidence) == ("eval", "log_line")
    assert top(diagnosis) == "eval_generation"


def test_a_training_step_after_an_evaluation_is_training() -> None:
    log = steps(1, 100) + "Running validation\n" + steps(101, 105)
    diagnosis = failed(FORWARD, oom(), before=log)
    assert top(diagnosis) == "activations"
    assert "eval_generation" not in causes(diagnosis)


def test_memory_that_grows_over_the_evaluations_batches_is_told() -> None:
    # 25 GiB at the first batch, 60 GiB at the eighth: gradients or outputs are kept
    log = "Running validation\n" + "".join(
        f"val {n}/40 memory allocated: {20 + 5 * n}.00 GiB\n" for n in range(1, 9)
    )
    found = finding(failed(VALIDATE, oom(), before=log), "eval_generation")
    assert "grew from 25.00 GiB to 60.00 GiB" in found.says
