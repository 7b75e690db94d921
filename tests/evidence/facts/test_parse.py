# ruff: noqa: E501 (lines as jobs print them)
"""The package: sentences, order, repeats, prose, failure messages."""

import pytest

from oomph.evidence.facts import parse
from oomph.evidence.model import Document, Line, Position
from tests.evidence.facts.text import document, facts, pairs, settings


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("using fused AdamW: True", ("optimizer", "fused AdamW")),
        ("use 8-bit AdamW optimizer | {}", ("optimizer", "8-bit AdamW")),
        ("create LoRA network. base dim (rank): 128, alpha: 64", ("lora_rank", "128")),
        ("LoraConfig(task_type='CAUSAL_LM', inference_mode=False, r=8, lora_alpha=16)", ("lora_rank", "8")),
        ("52002 training examples tokenised, longest 512 tokens", ("sequence_length", "512")),
        (" > padded vocab (size: 195004) with 68 dummy tokens (new size: 195072)", ("vocab_size", "195072")),
        ("Instantiating LlamaForCausalLM model under default dtype torch.float16.", ("dtype", "fp16")),
        ("Model is initialized with precision torch.bfloat16.", ("dtype", "bf16")),
        ("using torch.bfloat16 for parameters ...", ("dtype", "bf16")),
        ("`use_cache=True` is incompatible with gradient checkpointing. Setting `use_cache=False`.", ("checkpointing", "true")),
        ("Applied selective activation checkpointing to the model", ("checkpointing", "true")),
    ],
)  # fmt: skip
def test_sentences(line, expected):
    assert expected in pairs(line)


def test_switched_off_in_a_sentence():
    assert pairs("using fused AdamW: False") == []
    assert pairs("use 8-bit Adam optimizer: False") == []


def test_facts_are_in_the_order_of_the_lines_and_carry_their_quote():
    found = facts("hello\n  batch_size: 4\nstep 1 loss 2.0\n  max_len: 512")
    assert [(fact.name, fact.position, fact.quote.line) for fact in found] == [
        ("batch_size", Position(0, 1), 2),
        ("progress", Position(0, 2), 3),
        ("sequence_length", Position(0, 3), 4),
    ]
    assert found[0].quote.text == "batch_size: 4"
    assert found[0].quote.source == "job.log"


def test_a_repeated_setting_counts_once_but_a_changed_one_again():
    text = "batch_size: 4\nbatch_size: 4\nbatch_size: 2\nbatch_size: 4"
    assert [value for _, value in pairs(text, "batch_size")] == ["4", "2", "4"]


def test_rank_is_the_lines():
    doc = Document("x", [Line("step 1 loss 2.0", 1, "rank3", 3), Line("rank 5 pid 77", 2)])
    assert [(fact.name, fact.rank) for fact in parse(doc)] == [("progress", 3), ("rank_pid", 5)]


def test_positions_carry_the_documents_index():
    doc = document("batch_size: 4")
    doc.index = 3
    assert parse(doc)[0].position == Position(3, 0)


@pytest.mark.parametrize(
    "line",
    [
        "NOTE: if you see 'CUDA out of memory' lower --micro-batch (see docs/oom.md)",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 79.11 GiB of which 3.19 MiB is free. Including non-PyTorch memory, this process has 78.79 GiB memory in use. Of the allocated memory 70.00 GiB is allocated by PyTorch, and 1.00 GiB is reserved by PyTorch but unallocated. If reserved but unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See documentation for Memory Management  (https://pytorch.org/docs/stable/notes/cuda.html#environment-variables)",
        "RuntimeError: CUDA out of memory. Tried to allocate 2.92 GiB (GPU 5; 23.70 GiB total capacity; 21.86 GiB already allocated; 358.75 MiB free; 22.13 GiB reserved in total by PyTorch)",
        "MPS backend out of memory (MPS allocated: 13.02 GB, other allocations: 4.88 GB, max allowed: 18.13 GB). Tried to allocate 512.00 MB on private pool.",
        "If you see this warning, consider lowering max_length or enabling fp16 training",
        "UserWarning: `max_length` is ignored when `padding`=`True` and there is no truncation strategy.",
        "Setting `pad_token_id` to `eos_token_id`:2 for open-end generation.",
        "Some weights of the model checkpoint at bert-base were not used when initializing BertModel",
        "RuntimeError: mat1 and mat2 shapes cannot be multiplied (16x512 and 1024x10)",
        "next idea from the meeting: yesterday's run ran out of memory at seq 16k, so we stay at 8k",
        "unit tests: 41 passed, 3 skipped",
        "Setting OMP_NUM_THREADS environment variable for each process to be 1 in default, to avoid your system being overloaded",
        "2025-05-13 08:50:00 [data] shard-00000.tar ok, 7862 samples, 0.92 GB",
        "  warnings.warn(",
        "The attention mask is not set and cannot be inferred from input",
        "Traceback (most recent call last):",
        "",
    ],
)  # fmt: skip
def test_prose_and_failure_messages_give_nothing(line):
    assert pairs(line) == []


def test_a_run_of_nanogpt():
    text = """\
Overriding config with config/train_gpt2.py:
batch_size = 12
block_size = 1024
gradient_accumulation_steps = 5 * 8
number of parameters: 123.59M
using fused AdamW: True
step 0: train loss 10.9, val loss 10.9
iter 0: loss 10.9872, time 42123.21ms, mfu -100.00%
iter 10: loss 9.4, time 250.21ms, mfu 30.00%
saving checkpoint to out
"""
    assert settings(text) == {
        "batch_size": "12",
        "sequence_length": "1024",
        "total_params": "123590000",
        "optimizer": "fused AdamW",
        "progress": "10",
        "phase_line": "save",
    }


def test_a_run_of_torchtune():
    text = """\
INFO:torchtune.utils._logging:Running FullFinetuneRecipeDistributed with resolved config:
batch_size: 2
dataset:
  _component_: torchtune.datasets.alpaca_dataset
  max_seq_len: 2048
dtype: bf16
enable_activation_checkpointing: true
gradient_accumulation_steps: 8
loss:
  _component_: torchtune.modules.loss.CEWithChunkedOutputLoss
optimizer:
  _component_: torch.optim.AdamW
  fused: true
resume_from_checkpoint: false
1|12|Loss: 1.8823:   3%|3         | 12/404 [00:31<15:40,  2.40s/it]
"""
    assert settings(text) == {
        "batch_size": "2",
        "sequence_length": "2048",
        "dtype": "bf16",
        "checkpointing": "true",
        "accumulation": "8",
        "optimizer": "AdamW",
        "progress": "12",
    }


def test_a_run_of_megatron():
    text = """\
using world size: 8, data-parallel-size: 2, tensor-model-parallel size: 4, pipeline-model-parallel size: 1
------------------------ arguments ------------------------
  bf16 ............................................ True
  fp16 ............................................ False
  global_batch_size ............................... 128
  micro_batch_size ................................ 4
  optimizer ....................................... adam
  params_dtype .................................... torch.bfloat16
  recompute_granularity ........................... None
  seq_length ...................................... 4096
-------------------- end of arguments ---------------------
training ...
 iteration       10/  200000 | consumed samples:  1280 | global batch size:   128 | lm loss: 1.03E+01 | loss scale: 1.0 |
"""
    assert settings(text) == {
        "world_size": "8",
        "mixed_precision": "bf16",
        "batch_size": "4",
        "optimizer": "adam",
        "dtype": "bf16",
        "checkpointing": "false",
        "sequence_length": "4096",
        "phase_line": "train",
        "progress": "10",
    }
