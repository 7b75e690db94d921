"""`oomph plan` with the real prediction behind it."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from typing import Any

import pytest

from oomph.report.plan.json import read_schema

jsonschema: Any = importlib.import_module("jsonschema")  # untyped unless its stubs are installed

GIB = 1 << 30


def document(run, *arguments: str) -> dict[str, Any]:
    result = run("plan", *arguments, "--format", "json")
    assert result.stdout, result.stderr
    answer = json.loads(result.stdout)
    jsonschema.validate(answer, json.loads(read_schema()), jsonschema.Draft202012Validator)
    assert answer["exit_code"] == result.exit_code
    return answer


def peaks(answer: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {each["phase"]: each for each in answer["ranks"][0]["phases"]}


def test_a_small_model_on_a_small_gpu(run) -> None:
    """gpt2 has 124,439,808 parameters. In fp32, AdamW's foreach step holds weights, gradients, two moments and one more
    set beside them: 20 bytes for each."""
    answer = document(run, "gpt2", "--gpu", "t4", "--batch", "1", "--seq", "128", "--precision", "fp32")
    assert (answer["parameters"], answer["trainable"], answer["fits"]) == (124_439_808, 124_439_808, True)
    found = peaks(answer)
    # Weights, and the causal masks that gpt2 has as buffers in some versions: at most 12 MiB.
    assert 0 <= found["load"]["allocated_bytes"] - 4 * 124_439_808 <= 13 << 20
    step = found["optimizer"]["allocated_bytes"]
    assert abs(step - 20 * 124_439_808) < 0.05 * 20 * 124_439_808
    for each in found.values():
        assert each["low_bytes"] <= each["allocated_bytes"] <= each["high_bytes"]
        assert sum(term["bytes"] for term in each["terms"]) == each["allocated_bytes"]
        assert each["reserved_bytes"] is None or each["reserved_bytes"] >= each["allocated_bytes"] * 0.99


def test_what_cannot_fit_does_not(run) -> None:
    """Llama 3.1 8B has 8,030,261,248 parameters: 16 bytes for each are 119.7 GiB, more than any A100 has."""
    answer = document(run, "meta-llama/Llama-3.1-8B", "--gpu", "a100-80gb", "--no-replay", "--batch", "1")
    assert (answer["fits"], answer["exit_code"]) == (False, 1)
    assert answer["ranks"][0]["high_bytes"] > 16 * 8_030_261_248
    assert answer["room_bytes"] < 80 * GIB
    assert "does not fit" in run("plan", "Llama-3.1-8B", "--gpu", "a100-80gb", "--no-replay").stdout


def test_shards_are_smaller_than_the_whole(run) -> None:
    """Between steps a rank of 8 has an eighth of weights and moments: 12 bytes for each of 8,030,261,248 / 8."""
    answer = document(
        run,
        "Llama-3.1-8B",
        "--gpu",
        "p4d.24xlarge",
        "--fsdp",
        "--checkpointing",
        "--no-replay",
        "--seq",
        "1024",
    )
    end = answer["ranks"][0]["end_allocated_bytes"]
    # On top of the shards: workspaces and what the loop keeps of the last loss.
    assert 0 <= end - 12 * 8_030_261_248 // 8 < 2 * GIB
    assert answer["host"]["available_bytes"] == 1152 * GIB


def test_less_is_free_beside_a_neighbour(run) -> None:
    alone = document(run, "gpt2", "--gpu", "a100-40gb", "--no-replay")
    beside = document(run, "gpt2", "--gpu", "a100-40gb", "--no-replay", "--free", "10GiB")
    assert alone["room_bytes"] > 35 * GIB
    # The context, which is not there yet, comes off what is free: at most 1.42 GiB.
    assert beside["room_bytes"] == 10 * GIB - int(1.42 * GIB)
    given = document(run, "gpt2", "--gpu", "a100-40gb", "--no-replay", "--capacity", "10GiB")
    assert given["room_bytes"] == 10 * GIB


def test_what_is_not_modelled_is_refused_by_name(run, tmp_path) -> None:
    config = {"model_type": "mamba", "hidden_size": 64, "num_hidden_layers": 2, "vocab_size": 100}
    (tmp_path / "config.json").write_text(json.dumps(config))
    result = run("plan", "config.json")
    assert result.exit_code == 2
    told = result.stdout + result.stderr
    assert "mamba" in told
    assert "oomph trace" in told
    assert "Traceback" not in told


@pytest.mark.parametrize(
    "arguments",
    [
        ["--set", "model.config.n_head=5"],
        ["--batch", "1000000000000"],
        ["--gpu", "v100-32gb", "--precision", "bf16"],
        ["--gpus", "2", "--fsdp1=no-shard", "--zero", "3"],
        ["--seq", "100000"],
    ],
)
def test_impossible_jobs_get_a_sentence(run, arguments) -> None:
    result = run("plan", "gpt2", "--no-replay", *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("oomph: ")
    assert result.stderr.count("\n") == 1


def test_the_library_predicts_too() -> None:
    import oomph
    from oomph.phases import Phase

    plan = oomph.plan("gpt2", gpu="rtx-4090", settings={"batch.micro": 2}, replay=False)
    assert plan.fits
    assert plan.ranks[0].phases[Phase.LOAD].allocated_bytes >= 4 * 124_439_808
    twice = oomph.plan("gpt2", gpu="rtx-4090", settings={"batch.micro": 4}, replay=False)
    assert twice.worst.peak.allocated_bytes > plan.worst.peak.allocated_bytes


def test_without_replay_nothing_heavy_is_loaded(tmp_path) -> None:
    code = (
        "import sys\nfrom oomph.cli.main import cli\n"
        "try:\n    cli(['plan', 'meta-llama/Llama-3.1-8B', '--gpu', 'h100x8', '--fsdp', '--no-replay'])\n"
        "except SystemExit:\n    pass\nprint(*sys.modules, file=sys.stderr)"
    )
    environment = {**os.environ, "HF_HOME": str(tmp_path), "PYTHONWARNINGS": "error"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=60,
        env=environment,
    )
    assert "Llama-3.1-8B" in done.stdout
    loaded = set(done.stderr.split())
    assert sorted(loaded & {"numpy", "torch", "transformers", "huggingface_hub", "rich", "jinja2"}) == []
