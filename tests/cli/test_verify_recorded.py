"""`oomph verify` and `oomph plan --against` on runs that were really recorded, on the CPU counted as a GPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

MIB = 1 << 20
SCRIPT = """
import torch
from transformers import LlamaConfig, LlamaForCausalLM

import oomph

config = LlamaConfig(
    hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4, vocab_size=512
)
model = LlamaForCausalLM(config)
optimizer = torch.optim.AdamW(model.parameters(), fused=True)
kept = []
with oomph.record(model=model, optimizer=optimizer, run_dir="leaking", warn=False):
    for step in range(12):
        tokens = torch.randint(0, 512, (2, 96 if step == 9 else 64))
        model(input_ids=tokens, labels=tokens).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        kept.append(torch.zeros(1 << 18))  # 1 MiB
"""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    folder = tmp_path_factory.mktemp("recorded")
    (folder / "train.py").write_text(SCRIPT)
    environment = {**os.environ, "OOMPH_CPU_CAPACITY": "512MiB", "HF_HUB_OFFLINE": "1"}
    environment.pop("OOMPH_RUN_DIR", None)
    done = subprocess.run(
        [sys.executable, "train.py"],
        check=False,
        capture_output=True,
        text=True,
        cwd=folder,
        env=environment,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return folder


def test_a_leak_of_a_mebibyte_in_each_step_is_found_and_nothing_else(run, recorded):
    path = str(recorded / "leaking")
    result = run("verify", path, "--format", "json", "--limit", "allocated:peak=64MiB")
    assert result.exit_code == 1
    answers = {each["check"]: each for each in json.loads(result.stdout)["answers"]}
    assert [name for name, each in answers.items() if each["status"] == "failed"] == ["growth"]
    assert answers["growth"]["numbers"]["per_step_bytes"] == MIB
    assert run("verify", path, "--ignore", "growth").stdout.startswith("Verified: 4 checks passed\n")


def test_the_job_is_understood_from_the_run_and_its_longest_batch_found(run, recorded):
    """On the CPU there is no cuBLAS: its workspace is missing in what was recorded, which the answer says."""
    result = run("plan", "--against", str(recorded / "leaking"), "--no-replay", "--format", "json")
    answer = json.loads(result.stdout)
    job = answer["job"]
    assert (job["model"]["family"], job["batch"]["micro"], job["batch"]["sequence"]) == ("llama", 2, 96)
    assert any("counted as if it were a GPU" in note for note in answer["notes"])
    rows = {row["phase"]: row for row in answer["rows"]}
    assert rows["backward"]["recorded_bytes"] > rows["backward"]["first_step_bytes"] > 0
    other = run(
        "plan", "--against", str(recorded / "leaking"), "--no-replay", "--seq", "64", "--format", "json"
    )
    (cause,) = json.loads(other.stdout)["causes"]
    assert cause["text"].startswith(
        "longest batch 2 x 96 tokens, in step 9 of rank 0 (planned: 2 x 64 tokens)"
    )
    assert cause["bytes"]["backward"] > 0
