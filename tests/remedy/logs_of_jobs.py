"""Logs of jobs that failed, as frameworks print them: what was trained, and the failure."""

from __future__ import annotations

from oomph.diagnose.case import Case
from oomph.diagnose.engine import diagnose
from oomph.diagnose.model import Diagnosis
from oomph.evidence.lines import build_document
from oomph.evidence.read import parse

_LIBRARY = "/opt/venv/lib/python3.11/site-packages"
_FRAMES = {
    "forward": (f"{_LIBRARY}/transformers/models/llama/modeling_llama.py", 822, "forward", "x = self.up(x)"),
    "backward": (f"{_LIBRARY}/torch/autograd/graph.py", 825, "_engine_run_backward", "run_backward("),
    "optimizer": (f"{_LIBRARY}/torch/optim/adamw.py", 175, "_init_group", "torch.zeros_like("),
}


def failure(
    phase: str = "optimizer",
    *,
    asked: str = "224.00 MiB",
    free: str = "150.00 MiB",
    allocated: str = "78.20 GiB",
    cached: str = "100.00 MiB",
    capacity: str = "79.15 GiB",
    process: str = "79.00 GiB",
) -> str:
    """A traceback that ends in PyTorch's message; the numbers are to satisfy the ledger's identities."""
    frames = [("/w/train.py", 9, "<module>", "main()")]
    if phase == "backward":
        frames.append((f"{_LIBRARY}/torch/_tensor.py", 581, "backward", "torch.autograd.backward("))
    if phase == "optimizer":
        frames.append((f"{_LIBRARY}/torch/optim/adamw.py", 220, "step", "self._init_group("))
    frames.append(_FRAMES[phase])
    told = "".join(
        f'  File "{file}", line {line}, in {name}\n    {code}\n' for file, line, name, code in frames
    )
    return (
        f"Traceback (most recent call last):\n{told}"
        f"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {asked}. GPU 0 has a total capacity of "
        f"{capacity} of which {free} is free. Including non-PyTorch memory, this process has {process} memory in use. "
        f"Of the allocated memory {allocated} is allocated by PyTorch, and {cached} is reserved by PyTorch but "
        "unallocated. If reserved but unallocated memory is large try setting "
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.\n"
    )


COMMAND = (
    "python train.py --model_name_or_path meta-llama/Llama-3.1-8B --per_device_train_batch_size 4 "
    "--gradient_accumulation_steps 2 --max_seq_length 4096 --bf16 --gradient_checkpointing --optim adamw_torch_fused\n"
)
GPU = "GPU: NVIDIA A100-SXM4-80GB\n"
RUNNING = """***** Running training *****
  Instantaneous batch size per device = 4
  Total train batch size (w. parallel, distributed & accumulation) = 8
  Gradient Accumulation steps = 2
  Number of trainable parameters = 8,030,261,248
"""
#: What it says in all: Llama 3.1 8B on one A100 80GB, micro-batches of 4 x 4096 tokens.
WHOLE = COMMAND + GPU + RUNNING + failure()

CONFIG = """[INFO|configuration_utils.py:746] 2025-03-04 09:00:03 >> Model config LlamaConfig {
  "_name_or_path": "meta-llama/Llama-3.2-1B",
  "head_dim": 64,
  "hidden_size": 2048,
  "intermediate_size": 8192,
  "max_position_embeddings": 131072,
  "model_type": "llama",
  "num_attention_heads": 32,
  "num_hidden_layers": 16,
  "num_key_value_heads": 8,
  "tie_word_embeddings": true,
  "vocab_size": 128256
}

"""
ARGUMENTS = """03/04/2025 09:00:02 - INFO - __main__ - Training/evaluation parameters TrainingArguments(
_n_gpu=1,
bf16=True,
deepspeed=None,
fsdp=[],
gradient_accumulation_steps=1,
gradient_checkpointing=False,
optim=OptimizerNames.ADAMW_TORCH,
output_dir=out,
per_device_train_batch_size=8,
)
"""
TORCHTUNE = """INFO:torchtune.utils._logging:Running FullFinetuneRecipeSingleDevice with resolved config:

batch_size: 2
compile: false
dataset:
  _component_: torchtune.datasets.alpaca_dataset
  packed: true
dtype: bf16
enable_activation_checkpointing: true
gradient_accumulation_steps: 1
model:
  _component_: torchtune.models.llama3_1.llama3_1_8b
optimizer:
  _component_: torch.optim.AdamW
  fused: true
tokenizer:
  _component_: torchtune.models.llama3.llama3_tokenizer
  max_seq_len: 8192

"""
AXOLOTL = """[2025-03-04 09:00:02,074] [INFO] [axolotl.cli.config] config:
base_model: mistralai/Mistral-7B-v0.1
sequence_len: 8192
sample_packing: true
micro_batch_size: 2
gradient_accumulation_steps: 4
optimizer: adamw_bnb_8bit
bf16: true
gradient_checkpointing: true
flash_attention: true

"""
TORCHTITAN = (
    "+ torchrun --nproc_per_node=8 train.py --job.config_file llama3_8b.toml --training.local_batch_size 1\n"
    '[rank0]:[titan] 2025-03-04 09:00:00,200 - root - INFO - Running with args: {"model": {"name": "llama3", '
    '"flavor": "8B"}, "training": {"local_batch_size": 1, "seq_len": 8192}, "parallelism": '
    '{"data_parallel_shard_degree": -1}, "activation_checkpoint": {"mode": "full"}}\n'
)


def case_in(text: str, *others: str) -> tuple[Diagnosis, Case]:
    """The diagnosis of a log (and further files of its job), without advice, and the case of its failure."""
    documents = [
        build_document(f"{number}.log" if number else "train.log", list(enumerate(each.split("\n"), 1)))
        for number, each in enumerate((text, *others))
    ]
    diagnosis, case = diagnose(parse(documents))
    assert case is not None
    return diagnosis, case
