"""What the libraries themselves print and save is read without a key left over."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

from oomph.job.importers import merge, read
from oomph.job.model import Batch, Checkpointing, Evaluation, Lora

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import peft
    import transformers
    import trl


@pytest.fixture
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def both_ways(arguments):
    """Printed, and as JSON."""
    return [read(str(arguments)), read(arguments.to_json_string())]


@pytest.mark.usefixtures("quiet")
def test_training_arguments(tmp_path):
    arguments = transformers.TrainingArguments(
        output_dir=str(tmp_path),
        per_device_train_batch_size=3,
        gradient_accumulation_steps=5,
        gradient_checkpointing=True,
        gradient_checkpointing_kwargs={"use_reentrant": False},
        optim="paged_adamw_8bit",
        eval_strategy="steps",
        eval_steps=10,
        per_device_eval_batch_size=7,
        eval_accumulation_steps=2,
        ddp_bucket_cap_mb=10,
        use_cpu=True,
    )
    for imported in both_ways(arguments):
        assert imported.kind == "TrainingArguments"
        assert imported.unknown == ()
        assert [text for text in imported.unsupported if "use_cpu" not in text] == []
        job, _ = merge(imported)
        assert job.batch == Batch(micro=3, accumulation=5)
        assert job.checkpointing == Checkpointing(mode="full", reentrant=False)
        assert (job.optimizer.impl, job.optimizer.state, job.optimizer.offload) == (
            "bnb_paged",
            "int8",
            "paged",
        )
        assert job.evaluation == Evaluation(batch=7, accumulation_steps=2)
        assert job.parallel.ddp_bucket_bytes == 10 * 1024 * 1024


@pytest.mark.usefixtures("quiet")
def test_every_optimizer_of_transformers_is_read_or_refused(tmp_path):
    for name in transformers.training_args.OptimizerNames:
        arguments = transformers.TrainingArguments(output_dir=str(tmp_path), use_cpu=True, optim=name)
        imported = read(str(arguments))
        refused = [text for text in imported.unsupported if "optim" in text]
        assert bool(refused) is not ("optimizer.name" in imported.values)


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("name", ["SFTConfig", "DPOConfig", "GRPOConfig", "KTOConfig", "RewardConfig"])
def test_configurations_of_trl(tmp_path, name):
    config = getattr(trl, name)(
        output_dir=str(tmp_path), use_cpu=True, bf16=False, per_device_train_batch_size=8
    )
    for imported in both_ways(config):
        assert imported.kind == "TRL"
        assert imported.unknown == ()
    imported = read(str(config))
    assert [text for text in imported.unsupported if "use_cpu" not in text] == []
    job, _ = merge(imported)
    objective = name.removesuffix("Config").lower()
    assert job.objective.name == ("default" if objective == "sft" else objective)
    assert job.framework.name == "trl"
    assert job.batch.micro == 8
    # BaseConfig of TRL turns it on.
    assert job.checkpointing.mode == "full"


@pytest.mark.usefixtures("quiet")
def test_adapters_of_peft(tmp_path):
    config = peft.LoraConfig(
        r=4, lora_alpha=8, target_modules=["q_proj", "o_proj"], lora_dropout=0.1, use_dora=True
    )
    config.save_pretrained(str(tmp_path))
    for imported in (read(str(config)), read(tmp_path / "adapter_config.json")):
        assert imported.kind == "PEFT"
        assert imported.unknown == ()
        assert imported.unsupported == ()
        lora = merge(imported)[0].method.lora
        assert lora is not None
        assert set(lora.targets) == {"q_proj", "o_proj"}
        assert lora == Lora(rank=4, targets=lora.targets, dropout=0.1, dora=True)


@pytest.mark.usefixtures("quiet")
def test_other_adapters_are_refused_by_name(tmp_path):
    for config in (
        peft.IA3Config(target_modules=["k_proj"], feedforward_modules=[]),
        peft.PrefixTuningConfig(),
    ):
        config.save_pretrained(str(tmp_path))
        imported = read(tmp_path / "adapter_config.json")
        assert imported.kind == "PEFT"
        assert [text for text in imported.unsupported if "peft_type" in text]


@pytest.mark.usefixtures("quiet")
def test_bitsandbytes_config():
    four = transformers.BitsAndBytesConfig(
        load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True
    )
    eight = transformers.BitsAndBytesConfig(load_in_8bit=True)
    for config, kind, double in ((four, "nf4", True), (eight, "int8", False)):
        for text in (str(config), config.to_json_string()):
            imported = read(text)
            assert imported.kind == "BitsAndBytesConfig"
            assert imported.unknown == ()
            found = merge(imported)[0].method.quantization
            assert found is not None
            assert (found.kind, found.double, found.block) == (kind, double, 64)


@pytest.mark.usefixtures("quiet")
def test_configurations_of_models(tmp_path):
    for config in (
        transformers.LlamaConfig(hidden_size=96),
        transformers.GPT2Config(),
        transformers.T5Config(),
    ):
        config.save_pretrained(str(tmp_path))
        imported = read(Path(tmp_path) / "config.json")
        assert imported.kind == "config.json"
        job, _ = merge(imported)
        assert job.model.family == config.model_type
        assert job.model.get("vocab_size") == config.vocab_size
        assert read(str(config)).kind == "config.json"
