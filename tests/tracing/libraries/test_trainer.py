"""How the Trainer of transformers is led through a trace."""

from __future__ import annotations

from tests.tracing.libraries.harness import program

_TRAINER = """
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

    class Rows(torch.utils.data.Dataset):
        def __len__(self):
            return 400
        def __getitem__(self, row):
            ids = torch.full((8,), row % 50)
            return {{"input_ids": ids, "labels": ids}}

    seen = []
    class Watched(Trainer):
        def prediction_step(self, *args, **kwargs):
            seen.append(1)
            return super().prediction_step(*args, **kwargs)

    model = GPT2LMHeadModel(GPT2Config(n_embd=16, n_layer=1, n_head=2, vocab_size=64, n_positions=16))
    trainer = Watched(
        model,
        TrainingArguments("out", per_device_train_batch_size=4, per_device_eval_batch_size=4, report_to="none", {more}),
        train_dataset=Rows(),
        eval_dataset=Rows(),
        {metrics}
    )
    trainer.train()
    print(trainer.state.global_step, len(seen))
"""


def test_training_ends_by_itself_after_the_wanted_steps() -> None:
    seen = program(_TRAINER.format(more="num_train_epochs=5", metrics="") + "    print('after')\n", steps=3)
    assert seen.printed.splitlines()[-2:] == ["3 0", "after"]
    assert seen.answer["steps"] == 3


def test_fewer_steps_than_wanted_are_what_the_script_says() -> None:
    seen = program(_TRAINER.format(more="max_steps=2", metrics=""), steps=3)
    assert seen.printed.splitlines()[-1] == "2 0"


def test_a_late_evaluation_comes_at_the_last_step_and_is_cut() -> None:
    more = 'max_steps=1000, eval_strategy="steps", eval_steps=500'
    seen = program(_TRAINER.format(more=more, metrics=""), steps=2)
    assert seen.printed.splitlines()[-1] == "2 4"
    assert "an evaluation ran 4 of its 100 batches" in seen.said
    assert "eval" in seen.answer["phases"]


def test_an_evaluation_that_keeps_its_outputs_is_longer() -> None:
    more = 'max_steps=1000, eval_strategy="steps", eval_steps=500'
    seen = program(_TRAINER.format(more=more, metrics="compute_metrics=lambda predictions: {},"), steps=2)
    assert seen.printed.splitlines()[-1] == "2 64"
    assert "it keeps each batch's outputs" in seen.said


def test_an_optimizer_after_the_trainer_ends_the_trace() -> None:
    more = """
    parameter = torch.nn.Parameter(torch.zeros(4, device="cuda"))
    optimizer = torch.optim.SGD([parameter], lr=0.1)
    for step in range(20):
        parameter.grad = torch.zeros_like(parameter)
        optimizer.step()
        print("step", step)
    """
    seen = program(_TRAINER.format(more="max_steps=1", metrics="") + more, steps=3)
    # The trainer's optimizer took one step. It is waited for until the other is eight steps further (its ninth), which
    # is the second step; the tenth is the third.
    assert seen.printed.splitlines()[-2:] == ["step 7", "step 8"]
