"""The Trainer's blocks, PEFT, and the phases that they announce."""

from tests.evidence.facts.text import pairs, settings

TRAINING = """\
[INFO|trainer.py:2409] 2025-03-04 09:00:15 >> ***** Running training *****
[INFO|trainer.py:2410] 2025-03-04 09:00:15 >>   Num examples = 52,002
[INFO|trainer.py:2412] 2025-03-04 09:00:15 >>   Instantaneous batch size per device = 2
[INFO|trainer.py:2415] 2025-03-04 09:00:15 >>   Total train batch size (w. parallel, distributed & accumulation) = 64
[INFO|trainer.py:2416] 2025-03-04 09:00:15 >>   Gradient Accumulation steps = 8
[INFO|trainer.py:2417] 2025-03-04 09:00:15 >>   Total optimization steps = 1218
[INFO|trainer.py:2418] 2025-03-04 09:00:15 >>   Number of trainable parameters = 6,738,415,616
"""


def test_training_block():
    assert pairs(TRAINING) == [
        ("phase_line", "train"),
        ("framework", "transformers"),
        ("batch_size", "2"),
        ("accumulation", "8"),
        ("trainable_params", "6738415616"),
    ]


def test_the_heading_alone_names_no_framework():
    # diffusers' example scripts print the same heading
    assert pairs("INFO - __main__ - ***** Running training *****") == [("phase_line", "train")]


def test_evaluation_block():
    text = "***** Running Evaluation *****\n[transformers]   Num examples = 16\n[transformers]   Batch size = 2\n"
    assert pairs(text) == [("phase_line", "eval"), ("eval_batch_size", "2")]
    assert pairs("***** Running Prediction *****")[0] == ("phase_line", "eval")


def test_batch_size_without_its_heading_is_the_jobs():
    assert settings("Batch size = 4") == {"batch_size": "4"}


def test_peft():
    line = "trainable params: 4,194,304 || all params: 6,742,609,920 || trainable%: 0.0622"
    assert pairs(line) == [("trainable_params", "4194304"), ("total_params", "6742609920")]


def test_loading_and_saving():
    assert pairs(
        "[INFO|modeling_utils.py:1124] >> loading weights file /models/a/model.safetensors.index.json"
    ) == [("phase_line", "load")]
    assert pairs("Loading checkpoint shards:  25%|##5       | 1/4 [00:01<00:04, 1.40s/it]") == [
        ("phase_line", "load")
    ]
    assert pairs("[INFO|configuration_utils.py:765] >> loading configuration file /models/a/config.json") == [
        ("model", "/models/a")
    ]
    assert pairs("[transformers] Saving model checkpoint to out/checkpoint-100") == [("phase_line", "save")]
    assert pairs("[transformers] Model weights saved in out/checkpoint-100/model.safetensors") == []


def test_resuming():
    assert pairs("Loading model from out/checkpoint-500.") == [
        ("phase_line", "load"),
        ("resume", "out/checkpoint-500"),
    ]
    assert pairs("  Continuing training from global step 500") == [("resume", "500")]
