"""`oomph repro` from the command line: which sources it takes, what it refuses, what it writes and says."""

from __future__ import annotations

import ast
import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from oomph.job.toml import to_toml
from tests.cli.snapshots import job as snapshot
from tests.diagnose.verify.against.test_compare import BASE, rank_of
from tests.diagnose.verify.against.test_recorded_job import TRAINER
from tests.diagnose.verify.runs import write
from tests.remedy.logs_of_jobs import GPU, WHOLE, failure
from tests.trial.repro.cases import CASES, JOBS


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "train.log"
    path.write_text(WHOLE, encoding="utf-8")
    return path.name


@pytest.fixture
def short(tmp_path):
    """A log that says nothing of its job."""
    path = tmp_path / "short.log"
    path.write_text(GPU + failure("backward"), encoding="utf-8")
    return path.name


@pytest.fixture
def recorded(tmp_path):
    return str(write(tmp_path / "run", [rank_of(BASE)], fingerprint=dict(TRAINER)))


def top(text: str) -> str:
    """The script's docstring in one line."""
    return " ".join((ast.get_docstring(ast.parse(text)) or "").split())


def test_a_log_that_says_its_job(run, log):
    result = run("repro", log)
    assert result.exit_code == 0, result.stderr
    said = top(result.stdout)
    assert said.startswith("The phase optimizer of a job, and nothing else")
    assert "meta-llama/Llama-3.1-8B, 4 x 4,096 tokens on each rank, 2 micro-batches a step" in said
    assert "asking for 224.00 MiB" in said
    assert "train.log, line" in said
    assert "class Measured(transformers.Trainer)" in result.stdout
    for line in (
        'optim="adamw_torch_fused",',
        "bf16=True,",
        "gradient_checkpointing=True,",
        '"hidden_size": 4096,',
    ):
        assert line in result.stdout
    assert "default=4096" in result.stdout
    assert "No sample is padded" in result.stderr
    assert run("repro", log, "-q").stderr == ""


def test_options_have_the_last_word(run, log):
    text = run("repro", log, "--seq", "512", "--phase", "forward", "--framework", "pytorch").stdout
    assert "default=512" in text
    assert top(text).startswith("The phase forward of a job")
    assert "Trainer" not in text


def test_a_log_without_a_job(run, short, tmp_path):
    result = run("repro", short)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "does not say the model, the batch size and the length of the sequences" in result.stderr
    assert "--job FILE gives it" in result.stderr
    result = run("repro", short, "--job", "gpt2")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "the batch (--batch N) and the length of the sequences (--seq N)" in result.stderr
    result = run("repro", short, "--job", "gpt2", "--batch", "2", "--seq", "256")
    assert result.exit_code == 0, result.stderr
    assert top(result.stdout).startswith("The phase backward of a job")
    (tmp_path / "job.toml").write_text(to_toml(CASES[0].job), encoding="utf-8")
    for arguments in (("--job", "job.toml"), ("job.toml",)):
        assert "4 x 384 tokens" in top(run("repro", short, *arguments).stdout)


def test_a_log_without_a_failure(run, tmp_path):
    (tmp_path / "fine.log").write_text("step 1\nstep 2\n", encoding="utf-8")
    result = run("repro", "fine.log", "--job", "gpt2")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "--phase" in result.stderr
    assert run("repro", "fine.log", "--job", "gpt2", "--phase", "forward").exit_code == 0


def test_a_run(run, recorded):
    result = run("repro", recorded)
    assert result.exit_code == 0, result.stderr
    assert "openai-community/gpt2, 2 x 256 tokens on each rank, 2 micro-batches a step" in top(result.stdout)
    assert "compare_versions" in result.stdout
    assert "'torch': " not in result.stdout
    assert "All weights train: the run did not record it (--lora, --qlora)." in result.stderr
    changed = run("repro", recorded, "--batch", "3", "--lora", "8", "--lora-targets", "c_attn")
    assert "3 x 256 tokens" in top(changed.stdout)
    assert "peft.get_peft_model" in changed.stdout
    assert "did not record" not in changed.stderr


def test_a_run_that_names_no_model(run, tmp_path):
    path = str(write(tmp_path / "bare", [rank_of(BASE)]))
    result = run("repro", path)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "does not say which model it trains" in result.stderr
    assert "--job JOB gives it" in result.stderr
    assert run("repro", path, "--job", "gpt2", "--batch", "1", "--seq", "8").exit_code == 0


def test_a_plan(run, tmp_path):
    result = run("repro", "gpt2", "--batch", "64", "--seq", "1024", "--gpu", "t4", "--precision", "fp32")
    assert result.exit_code == 0, result.stderr
    # 64 x 1024 x 50,257 logits in fp32 are 12.3 GiB, and the loss needs as much again: it fails in forward.
    assert top(result.stdout).startswith("The phase forward of a job")
    assert "Allocated at most, as oomph plan predicts it: load" in top(result.stdout)
    assert "A plain loop around transformers' model" in result.stderr
    fits = run("repro", "gpt2", "--batch", "1", "--seq", "8", "--gpu", "h100")
    assert top(fits.stdout).startswith("A training step of a job")
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "gpt2", "n_layer": 2}), encoding="utf-8")
    (tmp_path / "args.yaml").write_text(
        "per_device_train_batch_size: 3\nbf16: true\noutput_dir: x\n", encoding="utf-8"
    )
    merged = run("repro", "config.json", "args.yaml", "--seq", "64")
    assert merged.exit_code == 0, merged.stderr
    assert "per_device_train_batch_size=options.batch" in merged.stdout


def test_a_snapshot_has_no_job(run, tmp_path):
    (tmp_path / "oom.pickle").write_bytes(pickle.dumps(snapshot()))
    result = run("repro", "oom.pickle")
    assert (result.exit_code, result.stdout) == (2, "")
    assert (
        "oom.pickle keeps what was allocated, and not the job that did it: --job JOB gives it"
        in result.stderr
    )
    with_job = run("repro", "oom.pickle", "--job", "gpt2", "--batch", "1", "--seq", "64")
    assert with_job.exit_code == 0, with_job.stderr


def test_the_file(run, tmp_path):
    hostile = 'it\'s "x"\\.py'
    result = run("repro", "gpt2", "--batch", "1", "-o", hostile)
    assert (result.exit_code, result.stdout) == (0, ""), result.stderr
    text = (tmp_path / hostile).read_text(encoding="utf-8")
    assert "python 'it'\"'\"'s \"x\"\\.py'" in (ast.get_docstring(ast.parse(text)) or "")
    again = run("repro", "gpt2", "--batch", "2", "-o", hostile)
    assert again.exit_code == 2
    assert "is there already; --force overwrites it" in again.stderr
    assert (tmp_path / hostile).read_text(encoding="utf-8") == text
    assert run("repro", "gpt2", "--batch", "2", "-o", hostile, "--force").exit_code == 0
    assert "default=2" in (tmp_path / hostile).read_text(encoding="utf-8")
    assert run("repro", "gpt2", "--batch", "1", "-o", "-").stdout.startswith('"""')


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "Nothing to reproduce"),
        (("",), "is empty"),
        (("missing.log",), "does not exist"),
        (("missing.toml",), "no such file"),
        (("no-such-model-or-run",), "No model"),
        (("gpt2", "bert-base-uncased"), "two models"),
        (("gpt2", "-o", "nowhere/x.py"), "does not exist"),
        (("gpt2", "--phase", "eval"), "--eval-batch N"),
        (("gpt2", "--framework", "torchtune"), "the code of 'torchtune'"),
        (("gpt2", "--zero", "3", "--gpus", "2"), "DeepSpeed's zero3"),
        (("gpt2", "--compile"), "torch.compile"),
        (("last",), "no run is recorded"),
    ],
)
def test_what_is_refused(run, arguments, words):
    result = run("repro", *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert words in result.stderr
    assert "Traceback" not in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_a_rank_that_did_not_fail(run, log):
    result = run("repro", log, "--rank", "7")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "rank 7" in result.stderr


def test_the_traced_job_and_its_repro_fail_in_the_same_phase(run, tmp_path):
    """The whole way with the real commands: the job's trace, the script that is written of it, and that one's trace."""
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    (tmp_path / "job.toml").write_text(to_toml(CASES[0].job), encoding="utf-8")
    failures = []
    for script in (JOBS / "llama_loop.py", Path("repro.py")):
        if not script.is_absolute():
            result = run("repro", "trace.json", "--job", "job.toml", "-o", "repro.py")
            assert result.exit_code == 0, result.stderr
            assert "The phase eval of a job" in top((tmp_path / "repro.py").read_text(encoding="utf-8"))
        done = subprocess.run(
            [sys.executable, "-m", "oomph", "trace", "--steps", "all", "--capacity", "1600MiB", "--format", "json",
             "--no-stacks", "-o", "trace.json", "--", str(script)],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
            cwd=tmp_path,
            env={**os.environ, "HF_HUB_OFFLINE": "1"},
        )  # fmt: skip
        assert done.returncode == 1, done.stderr[-2000:]
        trace = json.loads((tmp_path / "trace.json").read_text(encoding="utf-8"))["traces"][0]
        failures.append((trace["fits"], [device["fails_in"] for device in trace["devices"]]))
    assert failures == [(False, ["eval"])] * 2
