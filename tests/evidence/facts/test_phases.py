# ruff: noqa: E501 (lines as jobs print them)
"""Announcements of phases, resumes and good ends."""

import pytest

from tests.evidence.facts.text import pairs


@pytest.mark.parametrize(
    ("line", "phases"),
    [
        ("2025-03-04 09:08:40,240 - INFO - __main__ - Running validation... ", ["eval"]),
        ("running validation at step 25", ["eval"]),
        ("epoch 0 done, running validation (grad enabled)", ["eval"]),
        ("Evaluating on 2 subjects, 543344 frames", ["eval"]),
        ("Evaluating", ["eval"]),
        ("Validation sanity check: 0it [00:00, ?it/s]", ["eval"]),
        ("validating before training", ["eval"]),
        ("predicting 64 tiles of 512x512", ["eval"]),
        ("[03/11 14:12:02 d2.evaluation.evaluator]: Start inference on 5000 batches", ["eval"]),
        ("val 3/80 allocated 15.56 GiB", ["eval"]),
        ("Epoch(val)  [1][  50/5000]    eta: 0:03:00  time: 0.05", ["eval"]),
        ("Generating 4 images with prompt: a cat.", ["eval"]),
        ("Sanity Checking DataLoader 0:   0%|          | 0/2 [00:00<?, ?it/s]", ["eval"]),
        ("sampling 2 continuations for the eval table", ["generate"]),
        ("generating samples", ["generate"]),
        ("Steps:  50%|#####     | 1/2 [01:09<01:09, 69.31s/it, loss=0.102] Saving checkpoint and building preview pipeline at step 1", ["save", "eval"]),
        ("saving checkpoint to out", ["save"]),
        ("Saving current state to out/checkpoint-500", ["save"]),
        ("Saving the checkpoint (or staging if async is enabled).", ["save"]),
        ("Writing model shards:   0%|          | 0/1 [00:00<?, ?it/s]", ["save"]),
        ("Loading model", ["load"]),
        ("loading weights from C:\\work\\models\\unet_r34.pt", ["load"]),
        ("loading base weights dtype torch.float32", ["load"]),
        ("loading model and optionally peft_config", ["load"]),
        ("loading 4.27 GB checkpoint on cuda:0", ["load"]),
        ("loading /models/moe-230b-int4 with device_map auto", ["load"]),
        ("building actor from /models/vla-7b", ["load"]),
        ("loading state.pt with map_location cuda:0", ["load"]),
        ("reading checkpoint shards", ["load"]),
        ("Loading weights:   2%|2         | 611/30112 [00:03<02:31, 194.70it/s]", ["load"]),
        ("[INFO] [utils.py:781:see_memory_usage] Before creating fp32 partitions", ["init"]),
        ("> initializing torch distributed ...", ["init"]),
        ("Initializing distributed: GLOBAL_RANK: 0, MEMBER: 1/4", ["init"]),
        ("start training, 300 epochs", ["train"]),
        ("Starting training from iteration 0", ["train"]),
        ("training ...", ["train"]),
        ("Training", ["train"]),
        ("Training starts at step 1", ["train"]),
    ],
)  # fmt: skip
def test_announcements(line, phases):
    assert [value for _, value in pairs(line, "phase_line")] == phases


@pytest.mark.parametrize(
    ("line", "where"),
    [
        ("Resuming training from out-stories/ckpt.pt", "out-stories/ckpt.pt"),
        ("[rank 0/4] resuming from ckpt/step_001000.pt", "ckpt/step_001000.pt"),
        ("Resuming from checkpoint checkpoint-500", "checkpoint-500"),
        ("resumed from checkpoint /ckpt/step_400.pt", "/ckpt/step_400.pt"),
        ("worker 0: restoring run from step 48000", "48000"),
        ("restoring best model from /data/ckpt/epoch-3", "/data/ckpt/epoch-3"),
        ("Restoring states from the checkpoint path at /runs/a/last.ckpt", "/runs/a/last.ckpt"),
        ("INFO - accelerate.accelerator - Loading states from out/checkpoint-500", "out/checkpoint-500"),
    ],
)
def test_a_resume_is_also_a_load(line, where):
    assert pairs(line, "phase_line", "resume") == [("phase_line", "load"), ("resume", where)]


@pytest.mark.parametrize(
    "line",
    [
        "Model weights saved in out/checkpoint-100/model.safetensors",
        "Epoch 4 ended, saved to /data/ckpt/epoch-4",
        "All the weights of the model checkpoint at /models/llm-7b were used.",
        "vae loaded (83.6M), dit loaded (2.6B), ema copy on",
        "loading sentencepiece model, 50000 pieces",
        "Loading dataset, 1220 axial slices",
        "Loading tokenizer from /models/a",
        "loading configuration file /models/a/generation_config.json",
        "validation_steps: 100",
        "There are 39810 training items and 4424 validation items",
        "evaluation_strategy: steps",
        "Skipping validation because eval_steps=0",
        "validation is disabled, not running validation",
        "finished evaluating in 3 s",
        "To resume training from a checkpoint pass --resume",
        "training stopped.",
        "Setting up training dataset...  274 images",
        "If you are evaluating a model, use no_grad",
        "NOTE: if you see 'CUDA out of memory' while loading model weights, use device_map",
        "    model = load_model(cfg)",
        "Training completed",
    ],
)
def test_no_announcement(line):
    assert pairs(line, "phase_line", "resume") == []


def test_a_bar_announces_once_and_again_when_it_starts_again():
    bar = "Evaluating:  {}0%|###       | {}/10 [00:03<00:04, 6.10it/s]\n"
    text = "".join(bar.format(done, done) for done in (1, 2, 3, 9)) + "ordinary\n" + bar.format(1, 1)
    assert pairs(text, "phase_line") == [("phase_line", "eval")] * 2


def test_the_pipeline_that_an_evaluation_builds_is_evaluation():
    bar = "Loading pipeline components...:  57%|#####7    | 4/7 [00:06<00:05,  1.7s/it]"
    assert pairs(bar, "phase_line") == [("phase_line", "load")]
    assert pairs(f"Running validation...\n{bar}", "phase_line") == [("phase_line", "eval")]


@pytest.mark.parametrize(
    "line",
    [
        "training finished after 160 steps",
        "Training completed. Do not forget to share your model on huggingface.co/models =)",
        "finished, exit code 0",
        "exit code 0",
        "job finished, exit code 0",
        "INFO trainer: done, 80 steps, final micro-batch 8",
        "{'train_runtime': 10984.1, 'train_samples_per_second': 14.2, 'train_loss': 1.024, 'epoch': 3.0}",
        "`Trainer.fit` stopped: `max_epochs=1` reached.",
        "Saved final model to out/final",
    ],
)
def test_good_ends(line):
    assert len(pairs(line, "success")) == 1


@pytest.mark.parametrize(
    "line",
    [
        "epoch 1 finished",
        "training finished with errors",
        "training failed",
        "Training completed: False",
        "exit code 1",
        "exit code 03",
        "Model weights saved in out",
        "when training is finished the model is uploaded",
        "the model will be saved after training is done",
        "done",
        "wandb: Waiting for W&B process to finish... (failed 1).",
        "+ echo 'exit code 0'",
    ],
)
def test_not_a_good_end(line):
    assert pairs(line, "success") == []
