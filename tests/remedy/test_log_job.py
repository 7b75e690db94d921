"""Which job a log shows, who says which field, and when there is none. Expected values stand in the logs."""

from __future__ import annotations

import json

import pytest

from oomph.errors import InputError, UsageError
from oomph.job.model import Batch, Hardware, Job
from oomph.job.names import model
from oomph.remedy.log_given import given_as
from oomph.remedy.log_job import Found, job_of
from tests.remedy.logs_of_jobs import (
    ARGUMENTS,
    AXOLOTL,
    COMMAND,
    CONFIG,
    GPU,
    RUNNING,
    TORCHTITAN,
    TORCHTUNE,
    WHOLE,
    case_in,
    failure,
)


def found(text: str, *others: str, given=None) -> Found:
    answer = job_of(case_in(text, *others)[1], None if given is None else given_as(given))
    assert isinstance(answer, Found), answer
    return answer


def why_not(text: str, given=None) -> str:
    answer = job_of(case_in(text)[1], None if given is None else given_as(given))
    assert isinstance(answer, str), answer
    return answer


def test_a_command_and_the_trainer_s_lines():
    job = found(WHOLE).job
    assert (job.model.name, job.hardware.gpu, job.hardware.gpus) == (
        "meta-llama/Llama-3.1-8B",
        "a100-80gb",
        1,
    )
    assert (job.batch.micro, job.batch.sequence, job.batch.accumulation) == (4, 4096, 2)
    assert (job.optimizer.impl, job.checkpointing.mode, job.precision.compute) == ("fused", "full", "bf16")


def test_every_field_that_somebody_says_has_its_line():
    fields = {field.path: field for field in found(WHOLE).fields}
    lines = {path: field.quote.line for path, field in fields.items() if field.quote is not None}
    assert {path: lines[path] for path in ("model.name", "batch.micro", "batch.sequence")} == {
        "model.name": 1,
        "batch.micro": 1,
        "batch.sequence": 1,
    }
    assert lines["hardware.gpu"] == 2
    assert fields["hardware.gpus"].says == "8 samples per step / (4 x 2)"  # 8 / (4 x 2) = 1 rank
    assert lines["hardware.gpus"] == 5
    assert fields["batch.micro"].says == "per_device_train_batch_size = 4"
    assert fields["loss"].quote is None
    assert fields["loss"].says == ""


def test_a_printed_configuration_and_printed_arguments():
    text = CONFIG + ARGUMENTS + "data: block_size = 2048\nworld_size: 1\n" + GPU + failure()
    job = found(text).job
    assert job.model.get("hidden_size") == 2048
    assert (job.batch.micro, job.batch.sequence, job.checkpointing.mode) == (8, 2048, "none")
    assert job.framework.name == "transformers"


def test_a_namespace_of_argparse():
    text = (
        "Namespace(model_name_or_path='meta-llama/Llama-3.2-1B', per_device_train_batch_size=2, "
        "max_seq_length=512, bf16=True, output_dir='out', learning_rate=1e-05)\n" + GPU + failure()
    )
    job = found(text).job
    assert (job.model.name, job.batch.micro, job.batch.sequence) == ("meta-llama/Llama-3.2-1B", 2, 512)


def test_a_resolved_config_of_torchtune_with_the_size_of_the_card():
    answer = found(TORCHTUNE + failure("backward"))
    job = answer.job
    assert (job.framework.name, job.batch.micro, job.batch.sequence) == ("torchtune", 2, 8192)
    assert (job.precision.weights, job.method.name, job.hardware.gpu) == ("bf16", "full", "")
    # 79.15 GiB less what is not PyTorch's: 79.15 - 0.15 free - 78.30 reserved, as printed with two decimals.
    gib = 2**30
    assert job.hardware.capacity_bytes == pytest.approx(
        78.20 * gib + 100 * 2**20 + 150 * 2**20, abs=0.02 * gib
    )
    assert next(f for f in answer.fields if f.path == "hardware.capacity_bytes").quote is not None


def test_a_yaml_of_axolotl():
    job = found(AXOLOTL + "GPU 0: NVIDIA H100 80GB HBM3\nworld_size: 1\n" + failure("backward")).job
    assert (job.model.name, job.hardware.gpu) == ("mistralai/Mistral-7B-v0.1", "h100")
    assert (job.batch.micro, job.batch.sequence, job.optimizer.state) == (2, 8192, "int8")


def test_arguments_of_torchtitan_and_the_ranks_of_torchrun():
    job = found(TORCHTITAN + "CUDA capacity: NVIDIA H100 80GB HBM3 with 79.10GiB\n" + failure("backward")).job
    assert (job.model.name, job.parallel.strategy, job.parallel.data) == (
        "meta-llama/Llama-3.1-8B",
        "fsdp2_full",
        8,
    )
    assert (job.batch.micro, job.batch.sequence, job.checkpointing.mode) == (1, 8192, "full")


def test_what_torchtitan_says_while_it_starts():
    said = "[rank0]:[titan] 2026-05-20 17:02:31,553 - root - INFO - "
    text = (
        "+ torchrun --nproc_per_node=8 -m torchtitan.train --job.config_file ./llama3_8b.toml\n"
        f"{said}Building 2-D device mesh with ['dp_shard', 'tp'], [4, 2]\n"
        f"{said}Model llama3 8B size: 8,030,261,248 total parameters\n"
        f"{said}Applied full activation checkpointing to the model\n"
        f"{said}Training starts at step 1, with local batch size 4, global batch size 16, sequence length 8192, "
        "total steps 4000 (warmup 200)\n"
    )
    answer = found(text + failure("backward"))
    job = answer.job
    assert (job.model.name, job.batch.micro, job.batch.sequence) == ("meta-llama/Llama-3.1-8B", 4, 8192)
    assert (job.parallel.data, job.parallel.tensor, job.checkpointing.mode) == (4, 2, "full")
    assert (
        next(field.quote.line for field in answer.fields if field.path == "batch.micro" and field.quote) == 5
    )
    assert "the model" in why_not(text.replace("llama3 8B", "llama3 own") + failure("backward"))


def test_lines_of_one_s_own():
    text = (
        "model: meta-llama/Llama-3.2-1B\nseq_len: 1024\nbatch_size: 2\ndtype: bf16\noptimizer: adamw\n"
        "number of parameters: 1235814400\n" + GPU + failure("forward")
    )
    job = found(text).job
    assert (job.model.name, job.batch.micro, job.batch.sequence) == ("meta-llama/Llama-3.2-1B", 2, 1024)
    assert (job.precision.weights, job.optimizer.name) == ("bf16", "adamw")


def test_a_configuration_that_another_file_of_the_job_has():
    job = found("starting rank 0\n" + failure(), COMMAND + GPU + RUNNING).job
    assert (job.batch.micro, job.hardware.gpu) == (4, "a100-80gb")


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        (WHOLE.replace("meta-llama/Llama-3.1-8B", "own-8b"), "the model"),
        (WHOLE.replace("--max_seq_length 4096 ", ""), "the length of the sequences"),
        (
            WHOLE.replace("--per_device_train_batch_size 4 ", "").replace(RUNNING, ""),
            "the batch size",
        ),
        (COMMAND + RUNNING + "RuntimeError: CUDA error: out of memory\n", "the GPU"),
    ],
)
def test_what_nobody_says_is_not_guessed(text, missing):
    assert why_not(text) == f"The log does not say {missing}; --job FILE gives it."


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (WHOLE.replace("per device = 4", "per device = 2"), "several values of batch size (2, 4)"),
        (
            "batch_size: 2\n" * 2 + "batch_size: 8\n" + WHOLE.replace(COMMAND, ""),
            "several values of batch size (2, 4, 8)",
        ),
        (
            WHOLE.replace("adamw_torch_fused", "lion_of_my_own"),
            "the optimizer lion_of_my_own is not one that the plan knows",
        ),
        (WHOLE.replace("8,030,261,248", "8,536,000"), "8,536,000 parameters that train"),
        ("total params: 13,015,864,320\n" + WHOLE, "it is another model"),
        (
            "model: gpt2\nworld_size: 8\nseq_len: 512\nbatch_size: 2\n" + GPU + failure(),
            "how the GPUs share the work",
        ),
        (
            "model: gpt2\nwith FSDP2\nseq_len: 512\nbatch_size: 2\n" + GPU + failure(),
            "how many GPUs",
        ),
        (
            WHOLE.replace("--bf16", "--bf16 --deepspeed ds.json"),
            "a file that the log does not show (deepspeed = ds.json)",
        ),
        (
            TORCHTITAN.replace('"local_batch_size": 1', '"local_batch_size": 4') + GPU + failure(),
            "several values of batch size (1, 4)",
        ),
        (
            "model: gpt2\nmodel: meta-llama/Llama-3.2-1B\nseq_len: 512\nbatch_size: 2\n" + GPU + failure(),
            "several models",
        ),
        (WHOLE.replace(GPU, GPU + "Unsloth: Will patch your computer.\n"), "unsloth trains with code"),
        (
            "model: gpt2\nload_in_4bit: true\nseq_len: 512\nbatch_size: 2\n" + GPU + failure(),
            "how the weights are quantised is not printed",
        ),
    ],
)
def test_what_contradicts_itself_is_no_job(text, words):
    assert words in why_not(text)


def test_the_count_of_what_trains_tells_where_the_adapters_are():
    """Rank 16 on all linear modules of 32 layers of Llama 3.1 8B: 16 for each input and output of a module."""
    sides = (4096 + 4096) * 2 + (4096 + 1024) * 2 + (4096 + 14336) * 3
    count = 32 * 16 * sides
    assert count == 41_943_040
    text = (
        COMMAND.strip() + f" --use_peft --lora_r 16\n{GPU}"
        f"trainable params: {count:,} || all params: {8_030_261_248 + count:,} || trainable%: 0.5196\n"
    )
    answer = found(text + failure())
    assert answer.job.method.lora is not None
    assert (answer.job.method.lora.rank, answer.job.method.lora.targets) == (16, ("all-linear",))
    assert not any(sentence.startswith("Adapters on") for sentence in answer.assumptions)
    other = f"trainable params: {count + 16:,} || all params: {8_030_261_248 + count:,} ||"
    assert "adapters of rank 16" in why_not(
        text.replace(f"trainable params: {count:,} ||", other) + failure()
    )


def test_a_name_that_several_cards_have_is_told_apart_by_the_size_that_is_printed():
    text = COMMAND + "GPU: NVIDIA A100\n" + RUNNING
    small = failure(allocated="38.20 GiB", capacity="39.39 GiB", process="39.00 GiB")
    assert found(text + small).job.hardware.gpu == "a100-40gb"
    assert found(text + failure()).job.hardware.gpu == "a100-80gb"


def test_no_file_of_this_machine_is_read_because_a_log_names_it(tmp_path, monkeypatch):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "llama", "hidden_size": 64}))
    assert "the model" in why_not(WHOLE.replace("meta-llama/Llama-3.1-8B", str(tmp_path)))
    monkeypatch.chdir(tmp_path)
    assert "the model" in why_not(WHOLE.replace("meta-llama/Llama-3.1-8B", "/models/config.json"))
    (tmp_path / "gpt2").mkdir()
    assert "the model" in why_not(WHOLE.replace("meta-llama/Llama-3.1-8B", "gpt2"))
    cached = "/root/.cache/huggingface/hub/models--meta-llama--Llama-3.1-8B/snapshots/0e9e39"
    assert found(WHOLE.replace("meta-llama/Llama-3.1-8B", cached)).job.model.name == "meta-llama/Llama-3.1-8B"


def test_a_given_config_has_the_last_word_and_the_log_the_rest(tmp_path):
    config = {
        "model_type": "llama",
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "vocab_size": 1000,
        "tie_word_embeddings": False,
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    job = found(WHOLE.replace("  Number of trainable parameters = 8,030,261,248\n", ""), given=tmp_path).job
    assert job.model.get("hidden_size") == 64
    assert (job.batch.micro, job.batch.sequence, job.hardware.gpu) == (4, 4096, "a100-80gb")


def test_a_model_s_name_may_be_given():
    text = WHOLE.replace("meta-llama/Llama-3.1-8B", "own-8b")
    assert found(text, given="meta-llama/Llama-3.1-8B").job.model.name == "meta-llama/Llama-3.1-8B"


def test_a_whole_job_stands_as_it_is_given():
    given = Job(model=model("gpt2"), batch=Batch(micro=3, sequence=77), hardware=Hardware(gpu="h100"))
    job = found(WHOLE, given=given).job
    assert (job.batch, job.hardware.gpu) == (given.batch, "h100")
    on_the_log_s = Job(model=model("gpt2"), batch=Batch(micro=3, sequence=77))
    assert found(WHOLE, given=on_the_log_s).job.hardware.gpu == "a100-80gb"
    assert why_not(WHOLE, given=Job()) == "The job that was given names no model."


def test_what_the_log_says_otherwise_is_noted():
    given = Job(model=model("gpt2"), batch=Batch(micro=3, sequence=4096), hardware=Hardware(gpu="h100"))
    assert found(WHOLE, given=given).notes == (
        "The log says batch_size = 4, and the job that was given has 3: planned is the latter.",
    )


def test_what_is_given_and_is_none_is_an_error(tmp_path):
    with pytest.raises(InputError):
        given_as(str(tmp_path / "nothing.json"))
    with pytest.raises(UsageError):
        given_as("a-model-that-nobody-knows")
