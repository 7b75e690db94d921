"""Configurations that frameworks print into a log."""

from __future__ import annotations

import contextlib
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from oomph.errors import OomphError
from oomph.job.importers import merge
from oomph.job.importers.logs import in_log
from oomph.job.model import Batch, Job, Lora, Optimizer, Parallel

FILES = Path(__file__).with_name("files")
HF = """+ torchrun --nproc_per_node 4 train.py --config train.yaml
[rank0]: W1105 10:12:00 Setting up devices
[rank0]: Model config LlamaConfig {
[rank0]:   "architectures": ["LlamaForCausalLM"],
[rank0]:   "hidden_size": 64,
[rank0]:   "model_type": "llama",
[rank0]:   "num_hidden_layers": 2
[rank0]: }
[rank0]: INFO Generate config GenerationConfig {
[rank0]:   "bos_token_id": 1
[rank0]: }
[rank0]: INFO Training parameters TrainingArguments(
[rank0]: bf16=True,
[rank0]: gradient_accumulation_steps=2,
[rank0]: optim=OptimizerNames.ADAMW_TORCH_FUSED,
[rank0]: per_device_train_batch_size=3,
[rank0]: )
[rank0]: LoraConfig(peft_type=<PeftType.LORA: 'LORA'>, r=4, target_modules={'q_proj', 'k_proj'}, lora_dropout=0.1)
{'loss': 1.23, 'epoch': 0.01}
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.
"""


def test_all_of_a_trainers_log_is_one_job():
    found = in_log(HF, "train.log")
    assert [each.kind for each in found] == ["TrainingArguments", "PEFT", "config.json", "command"]
    job, _ = merge(*found)
    assert job.batch == Batch(micro=3, accumulation=2)
    assert job.optimizer == Optimizer(impl="fused")
    assert job.parallel == Parallel(strategy="ddp", data=4)
    assert job.model.get("hidden_size") == 64
    assert job.method.lora is not None
    assert set(job.method.lora.targets) == {"q_proj", "k_proj"}
    assert job.method.lora == Lora(rank=4, targets=job.method.lora.targets, dropout=0.1)


def test_a_dump_of_megatron():
    (found,) = in_log("loading ...\n" + (FILES / "megatron_dump.txt").read_text() + "\niteration 1\n")
    assert merge(found)[0].batch == Batch(micro=4, sequence=2048, accumulation=4, packed=True)


def test_a_resolved_configuration_of_torchtune_ends_where_the_log_goes_on():
    text = (
        "INFO:torchtune.utils._logging:Running LoRAFinetuneRecipe with resolved config:\n\n"
        + (FILES / "torchtune.yaml").read_text()
        + "\nINFO:torchtune.utils._logging:Local rank: {seed: 1\n1|3|Loss: 1.2: 0%|\n"
    )
    (found,) = in_log(text)
    assert found.kind == "torchtune"
    assert merge(found)[0].batch.micro == 2


def test_a_configuration_that_deepspeed_prints():
    text = (
        "[2024-11-05 10:00:00,000] [INFO] [config.py:988:print_user_config]   json = {\n"
        '    "train_micro_batch_size_per_gpu": 2, \n    "zero_optimization": {"stage": 2}, \n'
        '    "bf16": {"enabled": true}\n}\nstep 1\n'
    )
    (found,) = in_log(text)
    assert merge(found)[0].parallel.strategy == "zero2"


def test_a_log_that_says_nothing_has_no_job():
    assert in_log("epoch 1\nCUDA out of memory. Tried to allocate 2.00 GiB.\n") == ()
    assert in_log("") == ()


@settings(max_examples=100)
@given(st.data())
def test_damaged_logs_give_less(data):
    start, length = data.draw(st.integers(0, len(HF))), data.draw(st.integers(0, 300))
    found = in_log(HF[:start] + data.draw(st.text(max_size=10)) + HF[start + length :])
    with contextlib.suppress(OomphError):
        assert isinstance(merge(*found)[0], Job)


@given(st.text(max_size=300))
def test_any_text_is_survived(text):
    in_log(text)
