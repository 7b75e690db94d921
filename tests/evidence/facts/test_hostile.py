# ruff: noqa: E501 (lines as jobs print them)
"""No text makes a facts parser raise, and junk costs linear time."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oomph.evidence.facts import parse
from oomph.evidence.model import FACT_NAMES, Document, Line

_PIECES = st.sampled_from(
    [
        "batch_size", "--batch-size ", "train_batch_size", "eval_", "seq_len", "vocab_size", "optimizer", "dtype", "fp16", "precision",
        ": ", "=", " .... ", "'", '"', "{", "}", "(", ")", "| ", ", ", "\n", "4", "1,024", "9" * 40, "True", "torch.bfloat16", "AdamW",
        "dict(type='", "***** Running ", "training *****", "Evaluation *****", "  Batch size = ", "trainable params: ", " || all params: ",
        "number of parameters: ", "model ", "6.2 B", "124M", " parameters", "torch 2.6.0", "+cu124", "CUDA 12.4", "cuda:0 (", "Tesla T4",
        "PYTORCH_CUDA_ALLOC_CONF=", "expandable_segments:True", " to avoid", "world size ", "WORLD INFO DICT: {", "[0, 1]", "stage3.py",
        "zero_optimization", "offload_param", "device", "cpu", "rank 0 pid ", "(VLLMEngine pid=", "step ", "loss ", "epoch ", "%|##| 3/9 [",
        "00:01<00:02, 3.1it/s]", "Loading checkpoint shards: ", "Running validation", "resuming from ", "saving checkpoint", "exit code 0",
        "CPU Virtual Memory:  used = ", "percent = ", "--mem=", "٣", "İ", "ﬀ", "\x00", "\ud800", " ", "  ", "/deepspeed/", ".py",
    ]
)  # fmt: skip


@settings(max_examples=400, deadline=None)
@given(
    st.lists(st.lists(_PIECES, max_size=9).map("".join), max_size=6),
    st.sampled_from(["", "ray:VLLMEngine:1", "ray:", "ray"]),
)
def test_pieces_of_real_lines_in_any_order(lines, stream):
    for fact in parse(Document("x", [Line(text, number, stream) for number, text in enumerate(lines, 1)])):
        assert fact.name in FACT_NAMES
        assert 0 <= fact.position.line < len(lines)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.text(max_size=200), max_size=4))
def test_any_text(lines):
    parse(Document("x", [Line(text, number) for number, text in enumerate(lines, 1)]))


@pytest.mark.parametrize(
    "word",
    [
        "step ", "loss ", "batch_size ", "model: ", "{", "batch_size={", "%|", "epoch loss step ", "torch ", "NVIDIA ", "WORLD INFO DICT: {",
        "zero_optimization ", "deepspeed --a ", "resuming from ", "loading the ", "saving ", "trainable 1", "alloc_conf ", "rank 1 pid ",
        "offload_param: ", "validation ", "--batch ", "lora rank ", "0 | ", "(a pid=", "training ", "(dict(", "train_batch_size: 4, ",
    ],
)  # fmt: skip
def test_the_longest_line_that_the_reader_passes_on(word):
    document = Document("x", [Line(word * (20_000 // len(word)), 1)] * 5)
    start = time.perf_counter()
    parse(document)
    assert time.perf_counter() - start < 5


@pytest.mark.parametrize(
    ("line", "most"),
    [
        ("2025-05-13 08:50:00 [data] shard-00000.tar ok, 7862 samples, 0.92 GB, next one queued", 2.0),
        ("    return self._call_impl(*args, **kwargs)", 2.0),
        ("[2025-03-04 09:14:40] epoch 3 iter  2200/5000  loss 0.5328  lr 1.0e-04  data 0.036s", 6.0),
    ],
)
def test_a_hundred_thousand_lines(line, most):
    document = Document("x", [Line(line, number) for number in range(100_000)])
    start = time.perf_counter()
    parse(document)
    assert time.perf_counter() - start < most
