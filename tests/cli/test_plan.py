"""`oomph plan`: from a command line to a job, and from a plan to an answer and an exit code."""

from __future__ import annotations

import dataclasses
import importlib
import json
from collections.abc import Callable
from typing import Any

import pytest

import oomph.api
from oomph.job.model import (
    Checkpointing,
    Evaluation,
    Framework,
    Job,
    Lora,
    Method,
    Objective,
    Optimizer,
    Parallel,
    Precision,
    Quantization,
)
from oomph.phases import Phase
from oomph.predict.model import Plan
from oomph.report.plan.json import read_schema
from tests.report.plan.plans import GIB, plan, rank, refused

jsonschema: Any = importlib.import_module("jsonschema")  # untyped unless its stubs are installed

LLAMA = "meta-llama/Llama-3.1-8B"


class Planner:
    """Stands in for the prediction: keeps the jobs, and answers with `answer`."""

    def __init__(self) -> None:
        self.jobs: list[Job] = []
        self.replays: list[bool] = []
        self.unsupported: tuple[str, ...] = ()
        self.answer: Callable[[Job], Plan] = lambda job: dataclasses.replace(plan(), job=job)

    def plan(self, job: Job, *, replay: bool = True, unsupported: tuple[str, ...] = ()) -> Plan:
        self.jobs.append(job)
        self.replays.append(replay)
        self.unsupported = unsupported
        return self.answer(job)

    @property
    def job(self) -> Job:
        return self.jobs[-1]


@pytest.fixture
def planner(monkeypatch: pytest.MonkeyPatch) -> Planner:
    made = Planner()
    monkeypatch.setattr(oomph.api, "plan_job", made.plan)
    return made


def test_the_usual_command_line(run, planner) -> None:
    result = run("plan", LLAMA, "--gpu", "a2-highgpu-8g", "--fsdp", "--batch", "2", "--seq", "8192")
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("It fits: it needs 36.00 GiB in backward, at most")
    assert "8 x NVIDIA A100-SXM4-40GB (a2-highgpu-8g)" in " ".join(result.stdout.split())
    job = planner.job
    assert (job.model.family, job.model.get("num_hidden_layers")) == ("llama", 32)
    assert job.parallel == Parallel(strategy="fsdp2_full", data=8)
    assert (job.batch.micro, job.batch.sequence) == (2, 8192)
    hardware = job.hardware
    assert (hardware.gpu, hardware.machine, hardware.gpus, hardware.per_node) == (
        "a100-40gb",
        "a2-highgpu-8g",
        8,
        8,
    )
    assert hardware.host_bytes == 680 * GIB
    assert job.precision == Precision(weights="fp32", compute="bf16", autocast=True)
    assert "nothing says it (--precision)" in " ".join(result.stdout.split())
    assert planner.replays == [True]


@pytest.mark.parametrize(
    ("arguments", "path", "value"),
    [
        ("--gpu h100x8 --fsdp1=grad-op", "parallel.strategy", "fsdp1_shard_grad_op"),
        ("--gpu h100x8 --fsdp no-reshard", "parallel.strategy", "fsdp2_no_reshard"),
        ("--gpu h100x8 --fsdp=grad-op", "parallel.strategy", "fsdp2_no_reshard"),
        ("--gpu h100x8 --fsdp1", "parallel.strategy", "fsdp1_full_shard"),
        ("--gpu h100x8 --zero 3", "parallel.strategy", "zero3"),
        ("--gpu h100x8 --ddp", "parallel.strategy", "ddp"),
        ("--gpu h100x8", "parallel.strategy", "ddp"),
        ("--gpu h100x8 --gpus 1", "parallel.strategy", "none"),
        ("--gpu h100 --gpus 1 --fsdp", "parallel.strategy", "fsdp2_full"),
        ("--gpu h100x8 --fsdp --tensor 4", "parallel.data", 2),
        ("--tensor 2 --pipeline 2", "hardware.gpus", 4),
        ("--gpu p5.48xlarge --gpus 64 --fsdp", "parallel.data", 64),
        ("--gpu p5.48xlarge --gpus 64 --fsdp", "hardware.per_node", 8),
        ("--machine p4d.24xlarge --gpus 2", "hardware.gpu", "a100-40gb"),
        ("--gpu h100x8 --tensor 8 --sequence-parallel", "parallel.sequence_parallel", True),
        ("--gpu h100x8 --tensor 8", "parallel.strategy", "none"),
        ("--gpu h100x8 --tp 8", "parallel.tensor", 8),
        ("--gpu h100x8 --cp 8", "parallel.context", 8),
        ("--pp 4", "parallel.pipeline", 4),
        ("--gpu h100x8 --fsdp --ep 4", "parallel.expert", 4),
        ("--gpu h100x2 --fsdp --offload params", "parallel.offload_parameters", True),
        ("--offload activations", "activation_offload", True),
        ("--offload optimizer", "optimizer.offload", "cpu"),
        ("--offload optimizer --optimizer sgd", "optimizer.name", "sgd"),
        ("--gpu h100x2 --zero 3 --offload nvme", "optimizer.offload", "nvme"),
        ("--accumulation 8", "batch.accumulation", 8),
        ("--lora 16", "method", Method("lora", Lora(rank=16))),
        ("--method lora", "method", Method("lora", Lora())),
        ("--lora 16 --lora-targets all-linear", "method.lora.targets", ("all-linear",)),
        ("--lora 8 --lora-targets q_proj,o_proj --dora", "method.lora.dora", True),
        ("--qlora", "method.quantization", Quantization(kind="nf4", double=True, prepared=True)),
        ("--lora 8 --quantization int8", "method.name", "qlora"),
        ("--lora 8", "precision", Precision(weights="bf16", compute="bf16")),
        ("--gpu v100-32gb --lora 8", "precision", Precision(weights="fp16", compute="fp16")),
        ("--gpu t4", "precision.compute", "fp16"),
        ("--gpu h100x8 --zero 2", "precision", Precision(weights="bf16", compute="bf16", master=True)),
        ("--precision bf16", "precision", Precision(weights="bf16", compute="bf16")),
        ("--precision fp8", "precision", Precision(compute="fp8")),
        (
            "--optimizer paged_adamw_8bit",
            "optimizer",
            Optimizer(impl="bnb_paged", state="int8", offload="paged"),
        ),
        ("--checkpointing", "checkpointing", Checkpointing(mode="full")),
        ("--checkpointing=selective", "checkpointing.mode", "selective_op"),
        ("--checkpointing 2", "checkpointing", Checkpointing(mode="every_n", every=2)),
        ("--checkpointing none", "checkpointing", Checkpointing()),
        ("--attention fa2", "attention", "flash_attention_2"),
        ("--loss liger", "loss", "fused_linear_ce"),
        ("--compile", "compile", True),
        (
            "--framework transformers=4.48 --framework peft=0.14 --torch 2.6",
            "framework",
            Framework("transformers", (("peft", "0.14"), ("torch", "2.6"), ("transformers", "4.48"))),
        ),
        ("--torch 2.6", "framework.name", ""),
        ("--objective DPO", "objective", Objective(name="dpo")),
        ("--objective grpo --set objective.generations=4", "objective.generations", 4),
        ("--eval-batch 8 --generate 64", "evaluation", Evaluation(batch=8, generate=64)),
        ("--free 31GiB", "hardware.free_bytes", 31 * GIB),
        ("--capacity 20GiB", "hardware.capacity_bytes", 20 * GIB),
        ("--alloc-conf expandable_segments:True", "allocator", "expandable_segments:True"),
        ("--set model.config.num_hidden_layers=8", "model.config", None),
        ("--set parallel.forward_prefetch=true", "parallel.forward_prefetch", True),
        ("--batch 4 --set batch.micro=6", "batch.micro", 6),
        ("--seq 4096", "batch.sequence", 4096),
        ("", "batch.sequence", 2048),
    ],
)
def test_flags_become_fields(run, planner, arguments, path, value) -> None:
    result = run("plan", LLAMA, *arguments.split())
    assert result.exit_code == 0, result.output
    found: Any = planner.job
    for name in path.split("."):
        found = getattr(found, name)
    if path == "model.config":
        assert planner.job.model.get("num_hidden_layers") == 8
    else:
        assert found == value


def test_adapters_are_on_modules_that_the_model_has(run, planner) -> None:
    assert run("plan", "gpt2", "--lora", "8").exit_code == 0
    assert planner.job.method.lora == Lora(rank=8, targets=("c_attn",))
    assert run("plan", "gpt2", "--lora", "8", "--lora-targets", "q_proj,v_proj").exit_code == 0
    assert planner.job.method.lora == Lora(rank=8)


def test_a_sequence_is_no_longer_than_the_positions_by_default(run, planner) -> None:
    assert run("plan", "gpt2").exit_code == 0
    assert planner.job.batch.sequence == 1024


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("", "Nothing to plan: name a model"),
        ("gpt2 gpt2-large", "gpt2 and gpt2-large are two models"),
        ("nothing.yaml", "nothing.yaml: no such file"),
        ("gpt2 --gpu a100", "a100 can be a100-40gb or a100-80gb: say which."),
        ("gpt2 --gpu potato", "No GPU is known by the name potato"),
        ("gpt2 --fsdp", "FSDP2 shares the work of several GPUs: say how many"),
        ("gpt2 --zero 3", "ZERO3 shares the work of several GPUs: say how many"),
        ("gpt2 --zero 4", "--zero '4': give a stage, 1, 2 or 3"),
        ("gpt2 --gpus 2 --fsdp=sideways", "--fsdp sideways: it takes full, no-reshard or hybrid."),
        ("gpt2 --ddp --zero 1 --gpus 2", "--ddp and --zero contradict each other"),
        ("gpt2 --tensor 3 --gpus 4", "4 GPUs are not divided by the 3 ranks"),
        ("gpt2 --tensor 8 --gpus 4", "4 GPUs are not divided by the 8 ranks"),
        ("gpt2 --gpus many", "--gpus 'many': give the number of GPUs in all"),
        ("gpt2 --precision fp7", "--precision fp7: it takes fp32, tf32,"),
        ("gpt2 --optimizer rocket", "--optimizer rocket: it takes adamw,"),
        ("gpt2 --attention mine", "--attention mine: it takes eager,"),
        ("gpt2 --checkpointing=0", "--checkpointing 0: it takes none, full or selective."),
        ("gpt2 --offload moon", "--offload moon: it takes parameters, optimizer, activations or nvme."),
        ("gpt2 --method sideways", "--method 'sideways': it takes full, lora or qlora"),
        ("gpt2 --method full --lora 8", "--method full trains all weights"),
        ("gpt2 --lora-targets q_proj", "--lora-targets is for adapters"),
        ("gpt2 --quantization nf4", "--quantization is for adapters"),
        ("gpt2 --lora 8 --lora-targets ,", "--lora-targets is empty"),
        ("gpt2 --free 31", "--free '31' is 31 bytes"),
        ("gpt2 --free much", "--free 'much' is no size"),
        ("gpt2 --capacity 0", "--capacity '0' is no size"),
        ("gpt2 --framework =4", "--framework '=4': write it as NAME or NAME=VERSION"),
        ("gpt2 --framework trl=new", "--framework trl= 'new': give a version, like 2.9"),
        ("gpt2 --torch banana", "--torch 'banana': give a version, like 2.9"),
        (
            "gpt2 --gpu h100 --gpus 1000000",
            "--gpus '1000000': give the number of GPUs in all, from 1 to 999,999",
        ),
        ("gpt2 --set batch", "batch: write it as PATH=VALUE"),
        ("gpt2 --set batch.mikro=1", "Did you mean micro?"),
        ("gpt2 --machine p4d.24xlarge --gpu h100", "p4d.24xlarge has NVIDIA A100-SXM4-40GB"),
        ("gpt2 --machine h100", "No cloud machine is known by the name h100"),
        ("gpt2 --rank two", "--rank 'two': give the number of a rank"),
        ("gpt2 --rank 1", "--rank 1: there is one rank, 0"),
        ("gpt2 -o nowhere/answer.txt", "the folder nowhere does not exist"),
        ("gpt2 --save-job job.json", "a job file ends in .toml"),
        ("gpt2 -o job.toml --save-job job.toml", "two outputs go to this file"),
    ],
)
def test_what_makes_no_sense_gets_a_sentence(run, planner, arguments, sentence) -> None:
    result = run("plan", *arguments.split())
    assert result.exit_code == 2
    assert result.stdout == ""
    assert sentence in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("option", ["--batch", "--seq", "--lora", "--tensor"])
def test_counts_begin_at_one(run, planner, option) -> None:
    result = run("plan", "gpt2", option, "0")
    assert result.exit_code == 2
    assert "is not in the range" in result.stderr


def test_what_stands_after_a_flag_without_a_value_is_the_model(run, planner) -> None:
    assert run("plan", "--gpus", "2", "--fsdp", LLAMA, "--checkpointing", "--compile").exit_code == 0
    assert planner.job.model.name == LLAMA
    assert planner.job.checkpointing.mode == "full"
    assert run("plan", "--checkpointing", "--", LLAMA).exit_code == 0


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (plan(), 0),
        (plan(None, None), 0),
        (plan(None, 36, Phase.BACKWARD), 1),
        (plan(False, 24, Phase.FORWARD), 1),
        (refused("unsupported: ring attention"), 2),
    ],
)
def test_exit_codes(run, planner, answer, code) -> None:
    planner.answer = lambda job: answer
    assert run("plan", "gpt2").exit_code == code
    assert run("plan", "gpt2", "--exit-zero").exit_code == (0 if code == 1 else code)


def test_a_refused_job_points_to_the_trace(run, planner) -> None:
    planner.answer = lambda job: refused("unsupported: ring attention")
    result = run("plan", "gpt2")
    assert result.stdout.startswith("unsupported: ring attention. oomph plan does not model that; oomph")
    assert "trace runs the real code" in " ".join(result.stdout.split())


def test_formats_and_files(run, planner, tmp_path) -> None:
    document = json.loads(run("plan", "gpt2", "--format", "json").stdout)
    jsonschema.validate(document, json.loads(read_schema()), jsonschema.Draft202012Validator)
    assert document["job"]["model"]["config"]["n_layer"] == 12
    assert run("plan", "gpt2", "--format", "markdown").stdout.startswith("### It fits")
    assert run("plan", "gpt2", "--format", "html").stdout.startswith("<!DOCTYPE html>")
    result = run("plan", "gpt2", "-o", "answer.txt")
    assert result.stdout == ""
    assert result.stderr == "wrote answer.txt\n"
    assert (tmp_path / "answer.txt").read_text().startswith("It fits")
    assert run("plan", "gpt2", "-q", "-o", "answer.txt").stderr == ""
    (tmp_path / "oomph.toml").write_text('format = "markdown"\n')
    assert run("plan", "gpt2").stdout.startswith("### It fits")


def test_explained_text_has_pages_and_every_phase(run, planner) -> None:
    text = run("plan", "gpt2", "--explain").stdout
    assert "The peak in forward" in text
    assert "optimizer-adam" in text
    assert "optimizer-adam" not in run("plan", "gpt2").stdout


def test_a_rank_is_found_among_those_that_are_alike(run, planner) -> None:
    both = plan(ranks=(rank(ranks="ranks 0-3"), rank(ranks="ranks 4-6, 7", first=4, played=False)))
    planner.answer = lambda job: dataclasses.replace(both, job=job)
    for number, shown in (("2", "ranks 0-3"), ("6", "ranks 4-6, 7"), ("7", "ranks 4-6, 7")):
        assert f"Peaks of {shown}" in run("plan", "gpt2", "--gpus", "8", "--rank", number).stdout


def test_a_saved_job_is_read_again(run, planner, tmp_path) -> None:
    result = run("plan", LLAMA, "--gpu", "h100x8", "--fsdp", "--batch", "3", "--save-job", "job.toml")
    assert result.stderr == "wrote job.toml\n"
    first = planner.job
    assert run("plan", "job.toml").exit_code == 0
    assert planner.job == first
    assert run("plan", "job.toml", "--batch", "4", "--gpus", "16").exit_code == 0
    assert (planner.job.batch.micro, planner.job.parallel.data) == (4, 16)


def test_a_broken_job_file_gets_a_sentence(run, planner, tmp_path) -> None:
    (tmp_path / "job.toml").write_text("[batch\n")
    (tmp_path / "data.toml").write_bytes(b"\xff\xfe")
    (tmp_path / "large.toml").write_bytes(b"#" * (5 << 20))
    for name, sentence in (
        ("job", "not valid TOML"),
        ("data", "not a text file"),
        ("large", "are no job file"),
    ):
        result = run("plan", f"{name}.toml")
        assert (result.exit_code, result.stdout) == (2, "")
        assert sentence in result.stderr
    for name in ("whole", "job"):
        (tmp_path / f"{name}.toml").write_text('model = "gpt2"\n')
    assert "give it alone" in run("plan", "whole.toml", "job.toml").stderr


def test_a_mistake_in_a_job_file_names_the_file(run, planner, tmp_path) -> None:
    (tmp_path / "job.toml").write_text('model = "gpt2"\n[batch]\nmikro = 3\n')
    assert run("plan", "job.toml").stderr.startswith("oomph: job.toml: ")


def test_no_replay_is_asked_for(run, planner) -> None:
    assert run("plan", "gpt2", "--no-replay").exit_code == 0
    assert planner.replays == [False]


def test_help_says_what_options_without_a_value_mean(run) -> None:
    text = " ".join(run("plan", "--help").stdout.split())
    assert "--fsdp [=full|no-reshard|hybrid]" in text
    assert "Exit codes: 0 it fits" in text


def fake_smi(path, text, code=0):
    program = path / "nvidia-smi"
    program.write_text(f"#!/bin/sh\nprintf '{text}'\nexit {code}\n")
    program.chmod(0o755)


def test_what_is_free_now_is_what_nvidia_smi_says(run, planner, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "not on this machine" in run("plan", "gpt2", "--free", "now").stderr
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    fake_smi(tmp_path, "40000\\n31000\\n")
    assert run("plan", "gpt2", "--free", "now").exit_code == 0
    assert planner.job.hardware.free_bytes == 31000 * 2**20
    fake_smi(tmp_path, "No devices were found\\n", 6)
    assert "shows no GPU" in run("plan", "gpt2", "--free", "now").stderr
