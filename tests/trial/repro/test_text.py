"""What stands in a script: names that mean something else in Python, what is missing, what cannot be written."""

from __future__ import annotations

import ast
from typing import Any

import pytest
from msgspec.structs import replace

from oomph.errors import UsageError
from oomph.job.config import from_config
from oomph.job.model import (
    Batch,
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
from oomph.trial.repro import Asked, write
from oomph.trial.repro.literals import literal
from tests.trial.repro.cases import CASES, LLAMA

LOOP = CASES[0].job
TRAINER = CASES[1].job
HOSTILE = (
    '""" + __import__("os").system("touch owned") + """',
    "'); import os; os.system('touch owned') #",
    "a\nimport os\nos.system('touch owned')\n",
    "a\rimport os",
    "a\x0cb\x00c\u2028d\u202ee",
    "back\\slash\\",
    'ends with a quote"',
    '""""""',
    "\ud800 and \U0001f600",
    "{name} %s {0}",
    "",
)


def names_of(text: str) -> set[str]:
    """Every name that the script reads or calls."""
    return {node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)}


@pytest.mark.parametrize("hostile", HOSTILE)
@pytest.mark.parametrize("job", [LOOP, TRAINER], ids=["loop", "trainer"])
def test_names_are_never_code(job: Job, hostile: str) -> None:
    config = {**LLAMA, "hidden_act": hostile, hostile or "x": hostile, "rope_scaling": {"rope_type": hostile}}
    hurt = replace(
        job,
        model=from_config(config, hostile),
        method=Method(frozen=("model.embed_tokens",)),
        framework=replace(job.framework, versions=(("torch", hostile), ("transformers", "5.1.0"))),
        allocator=hostile,
        evaluation=Evaluation(),
    )
    asked = Asked(hurt, facts=(hostile, f"a {hostile}"), assumed=(hostile,), name=f"{hostile or 'x'}.py")
    text = write(asked).text
    tree = ast.parse(text)
    plain = write(replace_names(asked)).text
    # The same statements and the same names: what was hostile is in texts alone.
    assert [type(node).__name__ for node in tree.body] == [
        type(node).__name__ for node in ast.parse(plain).body
    ]
    assert names_of(text) == names_of(plain)
    table = next(
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and node.targets[0].id == "CONFIG"
    )
    assert ast.literal_eval(table)["hidden_act"] == hostile


@pytest.mark.parametrize("key", ["num_channels", "image_size", "num_labels", "patch_size"])
def test_numbers_that_are_none_are_never_code(key: str) -> None:
    job = next(case.job for case in CASES if case.name == "vit_loop")
    config = {**{each.key: each.value for each in job.model.config}, key: "3); import os; (os.system('x')"}
    hurt = replace(job, model=from_config(config, "x"), batch=replace(job.batch, image_size=None))
    with pytest.raises(UsageError):
        write(Asked(hurt))


def replace_names(asked: Asked) -> Asked:
    job = replace(
        asked.job,
        model=from_config(LLAMA, "x"),
        framework=replace(asked.job.framework, versions=(("torch", "2.9"), ("transformers", "5.1.0"))),
        allocator="a:b" if asked.job.allocator else "",
    )
    return Asked(job, facts=("a", "b"), assumed=("c",), name="x.py")


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        3,
        -2.5,
        1e-05,
        "a\n'\"",
        "\U0001f600 \ud800",
        [1, "two", 3.5],
        {"a": {"b": [1.5] * 60}, 'c"': None},
        ["sliding attention", "full attention"] * 30,
        {},
        [],
    ],
)
def test_literals_read_back(value: Any) -> None:
    assert ast.literal_eval(literal(value)) == value


def test_numbers_that_python_cannot_write() -> None:
    assert literal(float("inf")) == "float('inf')"
    assert eval(literal({"a": float("-inf")})) == {"a": float("-inf")}  # noqa: S307 - what was just written
    with pytest.raises(TypeError):
        literal(object())


def test_the_top_says_what_from_where_and_how() -> None:
    job = replace(CASES[6].job, hardware=replace(CASES[6].job.hardware, gpu="a100-80gb", gpus=2))
    script = write(Asked(job, Phase.BACKWARD, facts=("train.log, line 7: CUDA out of memory.",)))
    document = ast.get_docstring(ast.parse(script.text))
    assert document is not None
    lines = document.splitlines()
    assert lines[0] == "The phase backward of a job, and nothing else: random weights and data, no network."
    assert "train.log, line 7: CUDA out of memory." in lines
    assert "    torchrun --standalone --nproc-per-node 2 repro.py" in lines
    assert script.command == "torchrun --standalone --nproc-per-node 2 repro.py"
    assert "Left out: the data set and its loader, weights, logging, the learning rate's schedule." in lines
    assert script.phase == "backward"
    assert len(script.text.splitlines()) < 220
    assert max(map(len, script.text.splitlines())) <= 120


@pytest.mark.parametrize(
    ("attention", "words"),
    [
        # gemma2's class has eager and flash attention only, and refuses to be asked for sdpa by name.
        ("sdpa", "auto.from_config(config)\n"),
        ("sdpa_math", 'auto.from_config(config, attn_implementation="sdpa")\n'),
        ("eager", 'auto.from_config(config, attn_implementation="eager")\n'),
    ],
)
def test_attention_is_asked_for_where_it_is_not_transformers_own_choice(attention: Any, words: str) -> None:
    assert words in write(Asked(replace(LOOP, attention=attention))).text


def test_what_a_trainer_of_trl_gets() -> None:
    job = replace(LOOP, framework=Framework(name="trl"), batch=Batch(micro=2, sequence=64, padding="longest"))
    text = write(Asked(replace(job, optimizer=Optimizer()))).text
    ast.parse(text)
    for words in (
        "class Measured(trl.SFTTrainer)",
        "trl.SFTConfig(",
        "gradient_checkpointing=False,",
        "tokens[::2]",
    ):
        assert words in text
    assert "make_batch" not in text


def test_several_nodes() -> None:
    parallel = Parallel(strategy="fsdp2_full", data=16)
    job = replace(LOOP, parallel=parallel, hardware=replace(LOOP.hardware, gpu="h100", gpus=16, per_node=8))
    assert write(Asked(job)).command == (
        "torchrun --nnodes 2 --nproc-per-node 8 --rdzv-backend c10d --rdzv-endpoint HOST:29500 repro.py"
    )


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"framework": Framework(name="torchtitan")}, "the code of 'torchtitan'"),
        ({"framework": Framework(name="nemo")}, "the code of 'nemo'"),
        ({"framework": Framework(name="trl", versions=(("trl", "0.9.6"),))}, "TRL before 0.12"),
        (
            {"framework": Framework(name="trl"), "batch": Batch(packed=True)},
            "packed samples in TRL's SFTTrainer",
        ),
        ({"parallel": Parallel(strategy="ddp", data=2, tensor=2)}, "tensor parallelism"),
        ({"parallel": Parallel(strategy="zero3", data=2)}, "DeepSpeed's zero3"),
        ({"compile": True}, "torch.compile"),
        ({"loss": "fused_linear_ce"}, "the loss fused_linear_ce"),
        ({"objective": Objective(name="dpo")}, "the objective dpo"),
        ({"checkpointing": Checkpointing(mode="every_n", every=2)}, "activation checkpointing every_n"),
        (
            {"optimizer": Optimizer(name="muon", impl="for_loop")},
            "the optimizer muon (for_loop) in a plain loop",
        ),
        ({"optimizer": Optimizer(impl="in_backward")}, "the optimizer adamw (in_backward)"),
        ({"optimizer": Optimizer(offload="cpu")}, "optimizer states on the host"),
        (
            {"precision": Precision(weights="bf16", compute="bf16", master=True)},
            "a second copy of the weights",
        ),
        ({"precision": Precision(compute="bf16")}, "bf16 products with fp32 weights without autocast"),
        (
            {"method": Method(name="qlora", lora=Lora(), quantization=Quantization(kind="gptq4"))},
            "gptq4 weights, which are made from those of a checkpoint",
        ),
        ({"model": from_config({"model_type": "gemma3", "hidden_size": 8}, "x")}, "gemma3"),
    ],
)
def test_what_cannot_be_written_is_named(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError) as error:
        write(Asked(replace(LOOP, **changes)))
    assert words in str(error.value)


def test_all_reasons_are_named_at_once() -> None:
    job = replace(LOOP, compile=True, loss="chunked_ce", framework=Framework(name="megatron-lm"))
    with pytest.raises(UsageError) as error:
        write(Asked(job, unsupported=("pipeline stages of its own",)))
    for words in ("pipeline stages of its own", "torch.compile", "chunked_ce", "megatron-lm", "oomph bisect"):
        assert words in str(error.value)


@pytest.mark.parametrize(
    ("job", "phase", "words"),
    [
        (replace(LOOP, evaluation=Evaluation()), Phase.EVAL, "--eval-batch N"),
        (LOOP, Phase.GENERATE, "--generate N"),
        (replace(LOOP, evaluation=Evaluation(batch=4, keep_logits=True)), None, "evaluation.samples=N"),
        (LOOP, Phase.INIT, "oomph doctor"),
        (Job(), None, "--job"),
    ],
)
def test_what_is_missing_is_named_with_what_gives_it(job: Job, phase: Phase | None, words: str) -> None:
    with pytest.raises(UsageError) as error:
        write(Asked(job, phase))
    assert words in str(error.value)


def test_what_was_assumed_stands_in_the_script() -> None:
    script = write(Asked(replace(LOOP, framework=Framework()), assumed=("Sequences of 5 tokens.",)))
    said = " ".join(script.text.split())
    for sentence in script.assumed:
        assert sentence in said
    assert "Sequences of 5 tokens." in script.assumed
    assert any(sentence.startswith("A plain loop") for sentence in script.assumed)
    # nothing that matters was left to chance where the job says all of it
    assert not any("Trainer" in sentence for sentence in write(Asked(LOOP)).assumed)
