"""micro-batch, checkpointing, shorter-sequence, chunked-loss."""

from __future__ import annotations

import pytest

from oomph.diagnose.model import Step
from oomph.phases import Phase
from oomph.remedy.actions import all_actions
from oomph.remedy.actions.micro_batch import smaller
from tests.remedy.cases import case_of, finding_of


def step(
    code: str, cause: str = "activations", numbers: dict[str, int] | None = None, **case: object
) -> Step:
    made = case_of(**case)  # type: ignore[arg-type]
    return all_actions()[code].step(made, finding_of(cause, code, numbers=numbers))


def test_half_the_micro_batch_at_the_same_effective_batch() -> None:
    made = step("micro-batch", facts={"batch_size": 8, "accumulation": 4})
    assert made.title == "Micro-batch 8 -> 4, accumulation 4 -> 8"
    assert "8 x 4 = 4 x 8 samples" in made.text
    assert "77.56 MiB has to go" in made.text  # 508.00 - 430.44
    assert "508.00 MiB (a segment, not the tensor)" in made.text
    assert "21.94 GiB" in made.text
    assert made.frees_bytes is None  # how much of it is activations is not in the log


@pytest.mark.parametrize(
    ("batch", "expected"), [(2, 1), (3, 1), (4, 2), (6, 3), (7, 1), (9, 3), (24, 12), (25, 5)]
)
def test_the_new_micro_batch_divides_the_old_one(batch: int, expected: int) -> None:
    assert smaller(batch) == expected
    made = step("micro-batch", facts={"batch_size": batch, "accumulation": 2})
    assert f"Micro-batch {batch} -> {expected}, accumulation 2 -> {2 * batch // expected}" == made.title


def test_an_unknown_accumulation_is_a_factor() -> None:
    made = step("micro-batch", facts={"batch_size": 6})
    assert made.title == "Micro-batch 6 -> 3, accumulation times 2"
    assert "1 -> 2 where none is" in made.text


def test_an_unknown_batch_is_halved_in_words() -> None:
    made = step("micro-batch")
    assert made.title == "Halve the micro-batch and double gradient accumulation"
    assert "effective batch stays" in made.text


def test_after_a_micro_batch_of_one_comes_what_is_not_on_yet() -> None:
    made = step("micro-batch", facts={"batch_size": 2})
    assert [outcome for outcome, _ in made.outcomes] == ["If it still fails at 1"]
    assert "checkpointing" in made.outcomes[0][1]
    on = step("micro-batch", facts={"batch_size": 2, "checkpointing": "true"})
    assert "shorten the sequences" in on.outcomes[0][1]
    large = step("micro-batch", facts={"batch_size": 8})
    assert "sequence length fixed" in large.outcomes[0][1]


@pytest.mark.parametrize(
    ("framework", "lines"),
    [
        ("transformers", ["per_device_train_batch_size=4,", "gradient_accumulation_steps=8,"]),
        ("deepspeed", ['"train_micro_batch_size_per_gpu": 4,', '"gradient_accumulation_steps": 8,']),
        ("torchtune", ["batch_size=4 gradient_accumulation_steps=8"]),
        ("torchtitan", ["--training.local_batch_size 4"]),
        ("megatron", ["--micro-batch-size 4"]),
        ("lightning", ["DataLoader(..., batch_size=4)", "accumulate_grad_batches=8"]),
        ("axolotl", ["micro_batch_size: 4", "gradient_accumulation_steps: 8"]),
    ],
)
def test_the_setting_is_spelled_as_the_framework_does(framework: str, lines: list[str]) -> None:
    paste = step("micro-batch", facts={"framework": framework, "batch_size": 8, "accumulation": 4}).paste
    for line in lines:
        assert line in paste


@pytest.mark.parametrize(
    "phase", [Phase.LOAD, Phase.INIT, Phase.OPTIMIZER, Phase.SAVE, Phase.EVAL, Phase.GENERATE]
)
@pytest.mark.parametrize("code", ["micro-batch", "checkpointing", "shorter-sequence"])
def test_training_changes_do_not_apply_outside_training_steps(code: str, phase: Phase) -> None:
    assert not all_actions()[code].applies(case_of(phase=phase))


def test_checkpointing_says_that_the_batch_is_one() -> None:
    assert "The micro-batch is 1 already." in step("checkpointing", facts={"batch_size": 1}).text
    assert "is 1 already" not in step("checkpointing").text
    assert "gradient_checkpointing=True" in step("checkpointing", facts={"framework": "transformers"}).paste
    assert "use_reentrant=False" in step("checkpointing").paste


def test_the_sequence_is_halved() -> None:
    made = step("shorter-sequence", facts={"sequence_length": 8192, "framework": "torchtitan"})
    assert made.title == "Shorten the sequences: 8192 -> 4096 tokens"
    assert made.paste == "--training.seq_len 4096"
    assert "Halve the longest sequence" in step("shorter-sequence").text


def test_the_loss_names_the_size_of_the_logits() -> None:
    # 4 x 2,048 tokens x 128,256 entries x 4 bytes = 4,202,692,608 bytes = 3.91 GiB
    facts = {"batch_size": 4, "sequence_length": 2048, "vocab_size": 128256}
    assert "3.91 GiB" in step("chunked-loss", "logits_loss", facts=facts).text
    known = step("chunked-loss", "logits_loss", numbers={"logits_bytes": 2**31})
    assert "2.00 GiB here" in known.text
    assert "use_liger_kernel=True" in step("chunked-loss", facts={"framework": "transformers"}).paste


def test_a_chunked_loss_in_the_traceback_is_not_proposed() -> None:
    frame = (
        "/x/site-packages/liger_kernel/ops/fused_linear_cross_entropy.py",
        "forward",
        "logits_chunk = x @ w",
    )
    action = all_actions()["chunked-loss"]
    assert not action.applies(case_of(frames=[("train.py", "main", "loss = f(x)"), frame]))
    assert action.applies(case_of(frames=[("train.py", "main", "loss = F.cross_entropy(logits, labels)")]))
