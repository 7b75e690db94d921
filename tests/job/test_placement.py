"""A job on GPUs, and what stands in for what nobody said."""

from __future__ import annotations

import ast
import importlib.util
import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from oomph.errors import InputError, UsageError
from oomph.hardware.names import asked
from oomph.job.defaults import with_defaults
from oomph.job.inputs import WHOLE, read_inputs
from oomph.job.model import Dimension, Hardware, Job, Lora, Method, Model, Parallel, Precision
from oomph.job.placement import with_hardware, with_ranks


def test_a_machine_brings_its_gpus_and_its_ram() -> None:
    job = with_hardware(Job(), asked("p4d.24xlarge x2"))
    # 1152 GiB each, by the table of EC2.
    assert job.hardware == Hardware("a100-40gb", "p4d.24xlarge", 16, 8, host_bytes=1152 << 30)
    assert with_hardware(job, asked("h100")).hardware.machine == ""
    assert with_hardware(Job(), asked("8xh100"), 4, 2).hardware == Hardware("h100", gpus=4, per_node=2)


@pytest.mark.parametrize(
    ("parallel", "gpus", "said", "data", "in_all"),
    [
        (Parallel(), 8, {"hardware.gpus"}, 8, 8),
        (Parallel(tensor=2), 8, {"hardware.gpus", "parallel.tensor"}, 4, 8),
        (Parallel(tensor=2, pipeline=2), 1, {"parallel.tensor", "parallel.pipeline"}, 1, 4),
        (Parallel(data=4), 1, {"parallel.data"}, 4, 4),
        (Parallel(data=4), 8, {"parallel.data", "hardware.gpus"}, 4, 8),
        (Parallel(data=4, tensor=2), 1, set(), 4, 8),
        (Parallel(), 8, set(), 8, 8),
        (Parallel(), 1, set(), 1, 1),
    ],
)
def test_ranks_and_gpus_are_brought_together(parallel, gpus, said, data, in_all) -> None:
    job = with_ranks(Job(parallel=parallel, hardware=Hardware(gpus=gpus)), said)
    assert (job.parallel.data, job.hardware.gpus) == (data, in_all)


def test_who_shares_weights_with_nobody_is_asked_how_many() -> None:
    alone = Job(parallel=Parallel(strategy="zero3"))
    with pytest.raises(UsageError, match="ZERO3 shares the work of several GPUs"):
        with_ranks(alone, {"parallel.strategy"})
    assert with_ranks(alone, {"parallel.strategy", "hardware.gpus"}).parallel.data == 1


def test_every_choice_is_said() -> None:
    job = Job(parallel=Parallel(data=8), hardware=Hardware(gpus=8))
    chosen, sentences = with_defaults(job, ())
    assert chosen.parallel.strategy == "ddp"
    assert chosen.precision == Precision(weights="fp32", compute="bf16", autocast=True)
    assert [sentence.partition(":")[0].partition(" of ")[0] for sentence in sentences] == [
        "DDP over 8 GPUs",
        "Precision",
        "Micro-batch",
        "Sequences",
    ]
    assert with_defaults(chosen, ("parallel.strategy", "precision", "batch")) == (chosen, ())


def test_a_precision_in_part_said_is_said() -> None:
    job = Job(precision=Precision(weights="fp16"))
    assert with_defaults(job, ("precision", "batch"))[0].precision.weights == "fp16"


@pytest.mark.parametrize(
    ("strategy", "given", "precision"),
    [
        ("none", {"weights": "bf16"}, Precision(weights="bf16", compute="bf16")),
        ("none", {"weights": "bf16", "master": True}, Precision(weights="bf16", compute="bf16", master=True)),
        ("none", {"compute": "tf32"}, Precision(weights="fp32", compute="tf32")),
        ("none", {"compute": "fp16"}, Precision(weights="fp32", compute="fp16", autocast=True)),
        ("none", {"autocast": False}, Precision(weights="fp32", compute="bf16")),
        ("none", {"grads": "bf16"}, Precision(weights="fp32", compute="bf16", autocast=True, grads="bf16")),
        ("zero3", {"weights": "fp16"}, Precision(weights="fp16", compute="fp16", master=True)),
        ("zero3", {"weights": "fp32"}, Precision(weights="fp32", compute="bf16", autocast=True)),
    ],
)
def test_single_fields_of_the_precision_have_the_last_word(strategy, given, precision) -> None:
    job = Job(precision=Precision(**given), parallel=Parallel(strategy=strategy, data=4))
    said = ("parallel.strategy", "batch", *(f"precision.{name}" for name in given))
    chosen, sentences = with_defaults(job, said)
    assert chosen.precision == precision
    assert any(each.startswith("Precision: ") for each in sentences)
    whole = (*said, "precision.weights", "precision.compute", "precision.autocast")
    assert not with_defaults(chosen, whole)[1]


@pytest.mark.parametrize(
    ("gpu", "method", "strategy", "precision"),
    [
        ("", "full", "none", Precision(compute="bf16", autocast=True)),
        ("v100-32gb", "full", "none", Precision(compute="fp16", autocast=True)),
        ("h100", "lora", "none", Precision(weights="bf16", compute="bf16")),
        ("t4", "qlora", "none", Precision(weights="fp16", compute="fp16")),
        ("h100", "full", "zero2", Precision(weights="bf16", compute="bf16", master=True)),
        ("mi300x", "full", "none", Precision(compute="bf16", autocast=True)),
        ("nobody knows", "full", "none", Precision(compute="bf16", autocast=True)),
    ],
)
def test_the_precision_that_is_taken(gpu, method, strategy, precision) -> None:
    job = Job(method=Method(method), parallel=Parallel(strategy=strategy), hardware=Hardware(gpu=gpu))
    assert with_defaults(job, ())[0].precision == precision


def _modules_of_peft() -> dict[str, list[str]]:
    """PEFT's own table, read from its source: importing it takes seconds."""
    spec = importlib.util.find_spec("peft")
    assert spec is not None
    assert spec.origin is not None
    tree = ast.parse((Path(spec.origin).parent / "utils" / "constants.py").read_text())
    name = "TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING"
    table = next(
        each.value
        for each in tree.body
        if isinstance(each, ast.Assign) and getattr(each.targets[0], "id", "") == name
    )
    known: dict[str, list[str]] = ast.literal_eval(table)
    return known


def test_adapters_go_where_peft_puts_them() -> None:
    known = _modules_of_peft()
    families = (
        "llama",
        "gpt2",
        "bloom",
        "falcon",
        "gpt_neox",
        "gpt_bigcode",
        "phi",
        "t5",
        "bert",
        "deberta-v2",
        "opt",
    )
    for family in families:
        job = Job(model=Model(family=family), method=Method("lora", Lora(rank=4)))
        chosen, sentences = with_defaults(job, ("batch", "precision"))
        assert chosen.method.lora is not None
        assert list(chosen.method.lora.targets) == known[family]
        assert len(sentences) == 1


def test_targets_that_were_given_stay() -> None:
    gpt2 = Model(family="gpt2")
    given = Job(model=gpt2, method=Method("lora", Lora(targets=("c_proj",))))
    assert with_defaults(given, ("batch", "precision")) == (given, ())
    said = Job(model=gpt2, method=Method("lora", Lora()))
    assert with_defaults(said, WHOLE) == (said, ())


def test_no_more_tokens_than_positions() -> None:
    short = Job(model=Model(config=(Dimension("n_positions", 1024),)))
    assert with_defaults(short, ())[0].batch.sequence == 1024
    assert with_defaults(short, ("batch.sequence",))[0].batch.sequence == 2048
    images = replace(short, batch=replace(short.batch, sequence=None))
    assert with_defaults(images, ())[0].batch.sequence is None


def test_a_folder_is_a_model_and_so_is_its_config(tmp_path) -> None:
    import json

    config = {
        "model_type": "gpt2",
        "n_embd": 48,
        "n_layer": 3,
        "n_head": 4,
        "vocab_size": 100,
        "n_positions": 64,
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    for name in (str(tmp_path), str(tmp_path / "config.json")):
        given = read_inputs([name])
        assert (given.job.model.family, given.job.model.get("n_layer")) == ("gpt2", 3)
        assert given.job.model.name == tmp_path.name
        assert "precision" not in given.said


def test_files_of_frameworks_are_merged_and_say_what_they_decide(tmp_path) -> None:
    """What accelerate, a Trainer and a model say together: 8 ranks of FSDP2, 4 samples, bf16 under autocast."""
    texts = {
        "config.json": '{"model_type": "gpt2", "n_embd": 48, "n_layer": 3, "n_head": 4, "vocab_size": 100}',
        "args.yaml": "per_device_train_batch_size: 4\nbf16: true\ngradient_checkpointing: true\noutput_dir: out\n",
        "accelerate.yaml": "distributed_type: FSDP\nmixed_precision: bf16\nnum_processes: 8\nnum_machines: 1\n"
        "fsdp_config:\n  fsdp_version: 2\n  fsdp_reshard_after_forward: true\n",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    given = read_inputs([str(tmp_path / name) for name in texts])
    job = given.job
    assert (job.model.family, job.batch.micro, job.checkpointing.mode) == ("gpt2", 4, "full")
    assert (job.parallel.strategy, job.parallel.data) == ("fsdp2_full", 8)
    assert job.precision == Precision(compute="bf16", autocast=True)
    assert {"precision", "batch.micro", "parallel.strategy"} <= given.said
    assert "batch.sequence" not in given.said
    named = read_inputs(["gpt2-large", str(tmp_path / "args.yaml")])
    assert (named.job.model.get("n_layer"), named.job.batch.micro) == (36, 4)


def test_a_model_beside_a_file_that_names_another_is_said(tmp_path) -> None:
    (tmp_path / "axolotl.yaml").write_text("base_model: gpt2-large\nmicro_batch_size: 2\n")
    given = read_inputs(["gpt2", str(tmp_path / "axolotl.yaml")])
    assert given.job.model.get("n_layer") == 12
    assert any("contradicts it" in note for note in given.notes)
    (tmp_path / "config.json").write_text('{"model_type": "gpt2", "n_embd": 48, "n_layer": 3, "n_head": 4}')
    with pytest.raises(UsageError, match=r"config\.json and gpt2 are two models"):
        read_inputs(["gpt2", str(tmp_path)])


def test_a_pipe_with_a_files_ending_is_not_said_to_be_missing(tmp_path) -> None:
    os.mkfifo(tmp_path / "config.json")
    with pytest.raises(InputError, match="not a regular file"):
        read_inputs([str(tmp_path / "config.json")])


def test_a_folder_without_a_configuration_is_no_model(tmp_path) -> None:
    with pytest.raises(InputError, match=r"the folder has no config\.json"):
        read_inputs([str(tmp_path)])


@pytest.mark.parametrize("name", ["", "  ", "a\0b"])
def test_an_empty_input_is_refused(name) -> None:
    with pytest.raises(UsageError, match="an input is empty"):
        read_inputs([name])


def test_a_very_long_name_is_no_path() -> None:
    with pytest.raises(UsageError, match="No model"):
        read_inputs(["x" * 5000])


def test_what_several_gpus_do_is_the_frameworks_affair(tmp_path):
    """torchtune's distributed recipes shard; its file says nothing of how many there are."""
    file = tmp_path / "recipe.yaml"
    file.write_text("model:\n  _component_: torchtune.models.llama2.llama2_7b\nbatch_size: 1\ndtype: bf16\n")
    assert read_inputs([str(file)]).job.parallel.strategy == "none"
    job = read_inputs([str(file)], gpus=8).job
    assert (job.parallel.strategy, job.parallel.data, job.hardware.gpus) == ("fsdp2_full", 8, 8)


@pytest.mark.parametrize(
    "family", ["phi3", "xlm-roberta", "granite", "llama", "phi", "bert", "distilbert", "opt"]
)
def test_a_choice_of_modules_is_said_to_be_pefts_where_it_is(family) -> None:
    its = _modules_of_peft().get(family)
    job = Job(model=Model(name="x", family=family), method=Method(name="lora", lora=Lora()))
    chosen, sentences = with_defaults(job, ("precision", "batch"))
    assert ("as PEFT's" in sentences[0]) == (its is not None)
    assert chosen.method.lora is not None
    assert its is None or set(chosen.method.lora.targets) == set(its)
