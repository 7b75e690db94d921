"""Scripts that really run: on the CPU, under torchrun, and out of memory on a card that the recorder simulates."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from oomph.job.config import from_config
from oomph.job.model import Batch, Checkpointing, Evaluation, Framework, Job, Optimizer, Parallel, Precision
from oomph.phases import Phase
from oomph.trial.repro import Asked, write

pytest.importorskip("torch")
pytest.importorskip("transformers")
TINY = {
    "model_type": "llama",
    "vocab_size": 2048,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}
JOB = Job(
    model=from_config(TINY, "tiny"),
    batch=Batch(micro=4, sequence=32, accumulation=2),
    evaluation=Evaluation(batch=2, samples=4),
    optimizer=Optimizer(impl="fused"),
    framework=Framework(name="pytorch"),
)
LAUNCH = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")


def ran(folder: Path, job: Job, *arguments: str, launch: tuple[str, ...] = (), phase: Phase | None = None,
        **variables: str) -> subprocess.CompletedProcess[str]:  # fmt: skip
    """The script of a job, run as anybody would."""
    script = folder / "repro.py"
    script.write_text(write(Asked(job, phase)).text, encoding="utf-8")
    return subprocess.run(
        [sys.executable, *launch, str(script), "--device", "cpu", *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd=folder,
        env={**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", **variables},
    )


def test_two_ranks_under_torchrun(tmp_path: Path) -> None:
    job = replace(
        JOB,
        parallel=Parallel(strategy="fsdp2_full", data=2, sync_each_batch=False),
        precision=Precision(compute="bf16", reduce="fp32"),
        checkpointing=Checkpointing(mode="full"),
        optimizer=Optimizer(),
    )
    done = ran(tmp_path, job, launch=LAUNCH)
    assert done.returncode == 0, done.stderr[-3000:]
    assert sorted(done.stdout.splitlines()) == [
        f"rank {rank}: done; PyTorch counts no memory on the CPU, `oomph record` does" for rank in (0, 1)
    ]
    assert "the job has" not in done.stderr


def test_trainer_with_two_ranks_and_other_numbers(tmp_path: Path) -> None:
    job = replace(
        JOB,
        framework=Framework(name="transformers", versions=(("torch", "1.2.3"),)),
        parallel=Parallel(strategy="ddp", data=4),
        optimizer=Optimizer(),
    )
    arguments = ("--batch", "1", "--seq", "16", "--eval-batch", "3", "--steps", "1")
    done = ran(tmp_path, job, *arguments, launch=LAUNCH)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "rank 1: done" in done.stdout
    assert "the job has 4 ranks, here 2 run" in done.stderr
    assert "the job ran with torch 1.2.3, here is" in done.stderr
    assert list(tmp_path.iterdir()) == [tmp_path / "repro.py"]


def test_memory_really_runs_out_and_bisect_finds_the_batch(tmp_path: Path) -> None:
    """64 samples of 128 tokens have fp32 logits of 64 x 128 x 2048 x 4 bytes = 64 MiB: more than the card has. The
    weights, their gradients and two moments of them are some MB."""
    (tmp_path / "repro.py").write_text(write(Asked(JOB, Phase.FORWARD)).text, encoding="utf-8")
    command = [sys.executable, "repro.py", "--device", "cpu", "--seq", "128", "--batch", "{batch}"]
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "oomph",
            "bisect",
            "--param",
            "batch=64|1",
            "--format",
            "json",
            "-q",
            "--",
            *command,
        ],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "OOMPH_CPU_CAPACITY": "60MiB"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    answer = json.loads(done.stdout)
    assert (answer["causes"], answer["setting"]) == (["batch"], {"batch": 1})
    trials = [(each["setting"]["batch"], each["outcome"]) for each in answer["trials"]]
    assert trials == [(64, "oom"), (1, "fits")]
    assert answer["trials"][0]["phase"] == "forward"
