import pytest

from oomph.evidence.model import Document, Line
from oomph.evidence.series import parse
from oomph.evidence.series.scan import context_in, device_in, rank_in, step_in


@pytest.mark.parametrize(
    ("line", "step"),
    [
        ("step 12/100 loss 6.02", 12),
        ("step=00010 loss=7.1 grad_norm=1.6 step_ms=266.6", 10),
        ("step: 10  loss: 7.78", 10),
        ("{'loss': 2.1, 'global_step': 35}", 35),
        ("{'loss': '1.50', 'global_step/max_steps': '1/10'}", 1),
        ("epoch=0/micro_step=199/global_step=200, RunningAvgSamplesPerSec=58.7", 200),
        ("epoch 1 iter    40/900  loss 1.79  step 0.346s", 40),
        ("epoch 0 it 120/500 data 0.0052s", 120),
        ("iteration       30/      50 | consumed samples: 960", 30),
        ("[ 120/9000] d_loss 1.820 g_loss 1.361", 120),
        ("Epoch: [3]  [ 100/5000]  eta: 0:10:12", 100),
        ("Train: [0/300][10/1251]\teta 0:10:12", 10),
        ("val 3/80 allocated 15.56 GiB", 3),
        (" 40%|####    | 120/300 [00:00<00:01, 151.17it/s] loss 2.1", 120),
        (" 40%|####  | 120/300 [00:00<00:01, 151.17it/s][mem] step 125: allocated", 125),
    ],
)
def test_steps_that_are_printed(line, step):
    assert step_in(line) == step


@pytest.mark.parametrize(
    "line",
    [
        "data 0.039s  step 0.349s  mem 21988M",
        "step 12s per batch",
        "max_steps: 500",
        "micro_step=3",
        "Epoch [3/12] loss 2.1",
        "shard 9 of 12 indexed (612 items)",
        "2025/03/04 09:00:00 loss 1.2",
        "",
    ],
)
def test_numbers_that_are_no_steps(line):
    assert step_in(line) is None


def test_context_is_the_first_word_that_says_it():
    assert context_in("val 3/80 allocated 15 GiB") == "eval"
    assert context_in("step 5 train loss 2.0 val loss 2.1") == "train"
    assert context_in("[rank0] Evaluating: 12%") == "eval"
    assert context_in("Test: [10/500] time 0.1") == "eval"
    assert context_in("/work/train.py:120 loaded 3 files") == ""
    assert context_in("latest checkpoint found") == ""
    assert context_in("{'eval_loss': 2.1}") == "eval"


def test_device_only_when_one_is_named():
    assert device_in("torch allocated 0 B on cuda:2") == 2
    assert device_in("GPU 1: peak allocated 3.00 GiB") == 1
    assert device_in("cuda:0 to cuda:1") is None
    assert device_in("GPU 80GB, 24.0 GiB free") is None
    assert device_in("GPU memory 12.3 GiB") is None
    assert device_in("GPU 12.3 GiB") is None


def test_rank_of_a_prefix_but_not_of_lora():
    assert rank_in("[Rank 3] (after 1 iterations)") == 3
    assert rank_in("07:33:14 | INFO | rank2 | step 12") == 2
    assert rank_in("[init] rank 2: torch allocated 0 B") == 2
    assert rank_in("lora rank 16 mem 3.0 GiB") is None
    assert rank_in("rank 16 adapters, 3.0 GiB") is None


def test_what_the_line_object_knows_wins_over_the_text():
    line = Line("| rank5 | step 3 loss 1.0 mem 2.0 GiB", 7, stream="rank1", rank=1, time=12.5)
    (sample,) = parse(Document("a.log", [line], index=4))
    assert (sample.rank, sample.time, sample.step) == (1, 12.5, 3)
    assert (sample.position.document, sample.position.line) == (4, 0)
    assert (sample.quote.source, sample.quote.line) == ("a.log", 7)


def test_the_documents_rank_is_used_when_the_line_has_none():
    (sample,) = parse(Document("a.log", [Line("step 3 loss 1.0 mem 2.0 GiB", 1)], rank=6))
    assert sample.rank == 6
