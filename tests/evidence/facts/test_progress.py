# ruff: noqa: E501 (lines as the frameworks print them)
"""Training progress, and what only looks like it."""

import pytest

from oomph.evidence.facts import parse
from oomph.evidence.model import Document, Line
from tests.evidence.facts.text import pairs


def steps(text):
    return [value for _, value in pairs(text, "progress")]


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("step 12 loss 0.3", "12"),
        ("step 0: loss 0.4412 mem_alloc 74.6 GiB", "0"),
        ("step=00014 loss=7.01", "14"),
        ("step:  1  loss: 12.2721  grad_norm: 4.1  memory: 58.34GiB(73.75%)", "1"),
        ("steps: 3 loss: 0.3010 iter time (s): 41.302 samples/sec: 0.024", "3"),
        ("iter 3301 step 51: loss 3.2200, iter time: 442.31ms", "51"),
        ("iter    10/40000 lr 9.9e-3 loss 2.800 1.2s", "10"),
        (
            "[2025-03-04 09:00:32] epoch 12 iter    80/980  loss 0.2000  lr 1.0e-04  data 0.036s  step 0.326s",
            "80",
        ),
        ("2025-03-04 09:00:30 | INFO | step 7 | epoch 0 | loss 2.3100 | tps 4800", "7"),
        ("{'loss': 2.07, 'grad_norm': 1.1, 'learning_rate': 2e-05, 'epoch': 0.02}", ""),
        ("{'loss': '5.549', 'epoch': '0.05'}", ""),
        ("{'iter': 1, 'loss': 1.93, 'time': 2.91}", "1"),
        ('train_inner | {"epoch": 1, "loss": "11.2", "num_updates": "100"}', "100"),
        ("global_step 400 loss 1.2", "400"),
        ("mmengine - INFO - Iter(train) [  10/1200]  lr: 2.0e-06  time: 2.03  loss: 1.90", "10"),
        ("Epoch(train)  [1][  50/7330]  lr: 1.9e-03  time: 1.1  memory: 9911  loss: 1.40", "50"),
        ("[03/11 14:02:40 d2.utils.events]:  eta: 5:19:02  iter: 19  total_loss: 48.00  time: 1.11", "19"),
        (
            " iteration       10/  200000 | consumed samples: 1280 | lm loss: 1.03E+01 | loss scale: 1.0 |",
            "10",
        ),
        ("[  10/9000] d_loss 1.311 g_loss 1.452 alloc 2.15 GiB", "10"),
        ("Train Epoch: 1 [1000/300000 (0%)]\tLoss: 0.030000", ""),
        ("Train Epoch: 1 [0/300000 (0%)]\tLoss: 0.030000", "0"),
        ("epoch 0 it 10/500 data 0.0041s gpu_mem 11.3/24.0 GiB", "10"),
        ("epoch 12 finished in 00:07:51", ""),
        ("100     (0.33%)          211.000 ms           1 h, 44 m, 11 s       20.11 K", "100"),
        ("step 5 loss nan", "5"),
    ],
)
def test_lines(line, value):
    assert steps(line) == [value]


@pytest.mark.parametrize(
    ("line", "value"),
    [
        (" 22%|##        | 65/300 [00:00<00:01, 156.64it/s]", "65"),
        (" 22%|██▏       | 65/300 [00:00<00:01, 156.64it/s]Traceback (most recent call last):", "65"),
        ("  0%|          | 0/541 [00:03<?, ?it/s]", "0"),
        ("Epoch 0:  25%|##5       | 105/412 [00:12<00:36,  8.43it/s, v_num=0, train_loss=0.811]", "105"),
        ("Steps:  50%|#####     | 1/2 [01:22<01:22, 82.40s/it, loss=0.102] training failed: CUDA out of memory. Tried to allocate 74.00 MiB", "1"),
        ("train ep 2:  12%|#2        | 31/260 [03:10<23:11,  6.08s/it]THCudaCheck FAIL", "31"),
        ("      26/99      23.4G    0.033     0.027    0.011        146       1280: 100%|███| 412/412 [05:36<00:00,  1.30it/s]", "412"),
        ("Epoch 1/10:  50%|#####     | 500/1000 [00:10<00:10, 30.1img/s, loss (batch)=0.3]", "500"),
        ("1|12|Loss: 1.8823:   3%|▎         | 12/404 [00:31<15:40,  2.40s/it]", "12"),
    ],
)  # fmt: skip
def test_bars(line, value):
    assert steps(line) == [value]


@pytest.mark.parametrize(
    "line",
    [
        "Loading checkpoint shards:  50%|#####     | 2/4 [00:02<00:02, 1.40s/it]",
        "Loading weights:   2%|2         | 611/30112 [00:03<02:31, 194.70it/s]",
        "Map:  40%|####      | 20000/50000 [00:03<00:04, 6221.10 examples/s]",
        "Map (num_proc=8):  40%|####      | 20000/50000 [00:03<00:04, 6221.10 examples/s]",
        "Tokenizing train dataset:  40%|####      | 20/50 [00:03<00:04, 6.10it/s]",
        "Evaluating:  40%|####      | 20/50 [00:03<00:04, 6.10it/s]",
        "Generating train split:  40%|####      | 20/50 [00:03<00:04, 6.10it/s]",
        "Validation DataLoader 0:  10%|#         | 4/40 [00:00<00:04,  8.1it/s]",
        "tiles   1%|1         | 1/64 [00:00<00:56, 1.11it/s]",
        "calibrate  58%|#####8    | 300/512 [20:30<14:29, 4.10s/it]",
        "model.safetensors:  58%|#####8    | 1.2G/4.9G [00:30<00:29, 41.0MB/s]",
        "100%|##########| 231/231 [00:00<00:00, 410.12 examples/s]",
        "100%|##########| 231k/231k [00:00<00:00, 2.1MB/s]",
        "step 41500: train loss 2.8841, val loss 2.9017",
        "{'eval_loss': '5.546', 'eval_runtime': '0.0129', 'epoch': '0.5'}",
        "{'train_runtime': 10984.1, 'train_loss': 1.024, 'epoch': 3.0}",
        "Namespace(loss_weight=0.5, epoch=3, max_steps=100)",
        "loss: MaskedCrossEntropy (unfused)",
        "Attempted loss scale: 65536, reducing to 32768",
        "step 40: caught OOM at micro-batch 32, retrying: CUDA out of memory. loss 0.3",
        "step 0 ...",
        "    loss = step(batch)",
        "logging the loss every 10 steps",
    ],
)
def test_not_training(line):
    assert steps(line) == []


def test_a_bar_that_is_drawn_again_has_not_moved():
    bar = "  0%|          | 0/541 [00:00<?, ?it/s]"
    assert steps(f"{bar}\nTraceback (most recent call last):\n{bar}\n") == ["0"]


def test_an_unnamed_bar_during_evaluation_is_not_training():
    text = """\
[transformers]   Total optimization steps = 300
 17%|#7        | 50/300 [00:00<00:02, 122.69it/s]
***** Running Evaluation *****
 12%|#2        | 1/8 [00:00<00:00, 741.73it/s]
100%|##########| 8/8 [00:00<00:00, 741.73it/s]
 17%|#7        | 51/300 [00:01<00:02, 122.69it/s]
"""
    assert steps(text) == ["50", "51"]


def test_the_same_without_the_trainers_total():
    text = """\
 17%|#7        | 50/300 [00:00<00:02, 122.69it/s]
INFO Running validation
 12%|#2        | 1/8 [00:00<00:00, 741.73it/s]
 17%|#7        | 51/300 [00:01<00:02, 122.69it/s]
"""
    assert steps(text) == ["50", "51"]


def test_streams_do_not_disturb_each_other():
    lines = [
        Line("INFO Running validation", 1, "rank0"),
        Line(" 17%|#7        | 50/300 [00:00<00:02, 122.69it/s]", 2, "rank1"),
        Line(" 17%|#7        | 5/30 [00:00<00:02, 122.69it/s]", 3, "rank0"),
    ]
    found = [f for f in parse(Document("x", lines)) if f.name == "progress"]
    assert [(f.value, f.quote.line) for f in found] == [("50", 2)]
