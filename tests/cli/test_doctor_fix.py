"""`oomph doctor --script FILE --fix` and `--diff`, as a process of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

BAD = (
    "import torch\n"
    "from torch.distributed.fsdp import FullyShardedDataParallel as FSDP, ShardingStrategy\n"
    "\n"
    "def wrap(model, policy):\n"
    "    torch.cuda.memory_summary()\n"
    "    return FSDP(model, auto_wrap_policy=policy, sharding_strategy=ShardingStrategy.SHARD_FULL)\n"
)
GOOD = BAD.replace("SHARD_FULL", "FULL_SHARD").replace(
    "torch.cuda.memory_summary()", "print(torch.cuda.memory_summary())"
)


def oomph(*args, cwd):
    return subprocess.run(
        [sys.executable, "-m", "oomph", "doctor", *args], cwd=cwd, capture_output=True, text=True, check=False
    )


def test_a_diff_changes_nothing_and_patch_takes_it(tmp_path):
    (tmp_path / "train.py").write_text(BAD)
    result = oomph("--script", "train.py", "--diff", cwd=tmp_path)
    assert result.returncode == 1
    assert (tmp_path / "train.py").read_text() == BAD
    assert (
        "-    return FSDP(model, auto_wrap_policy=policy, sharding_strategy=ShardingStrategy.SHARD_FULL)"
        in (result.stdout)
    )
    assert "would change train.py: SCR114 (line 5), SCR101 (line 6)" in result.stderr
    (tmp_path / "a.diff").write_text(result.stdout)
    subprocess.run(["git", "apply", "a.diff"], cwd=tmp_path, check=True)
    assert (tmp_path / "train.py").read_text() == GOOD
    again = oomph("--script", "train.py", "--diff", cwd=tmp_path)
    assert (again.returncode, again.stdout) == (0, "")


@pytest.mark.parametrize(
    "data", [BAD.encode(), BAD.replace("\n", "\r\n").encode(), b"\xef\xbb\xbf" + BAD.encode()]
)
def test_a_fix_keeps_everything_else(tmp_path, data):
    path = tmp_path / "train.py"
    path.write_bytes(data)
    path.chmod(0o750)
    result = oomph("--script", "train.py", "--fix", cwd=tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr
    expected = data.replace(b"SHARD_FULL", b"FULL_SHARD").replace(
        b"torch.cuda.memory_summary()", b"print(torch.cuda.memory_summary())"
    )
    assert path.read_bytes() == expected
    assert path.stat().st_mode & 0o777 == 0o750
    assert os.listdir(tmp_path) == ["train.py"]


def test_what_has_no_safe_fix_is_left_and_found(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(BAD.replace("sharding_strategy", "shard_size=4, sharding_strategy"))
    result = oomph("--script", "train.py", "--fix", "--format", "json", cwd=tmp_path)
    assert result.returncode == 1
    assert [one["code"] for one in json.loads(result.stdout)["findings"]] == ["SCR118"]
    assert "FULL_SHARD" in path.read_text()


def test_nothing_is_written_before_everything_was_read(tmp_path):
    (tmp_path / "train.py").write_text(BAD)
    (tmp_path / "broken.py").write_text("def f(:\n")
    result = oomph("--script", "train.py", "broken.py", "--fix", cwd=tmp_path)
    assert result.returncode == 2
    assert "broken.py" in result.stderr
    assert (tmp_path / "train.py").read_text() == BAD


def test_a_notebook_is_not_changed(tmp_path):
    cell = {"cell_type": "code", "source": BAD, "outputs": [], "metadata": {}}
    text = json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5})
    (tmp_path / "train.ipynb").write_text(text)
    result = oomph("--script", "train.ipynb", "--fix", cwd=tmp_path)
    assert result.returncode == 1
    assert (tmp_path / "train.ipynb").read_text() == text
    assert "notebooks are not changed" in result.stderr


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--fix"], "--script"),
        (["--script", "train.py", "--fix", "--diff"], "leave one out"),
        (["--script", "none.py", "--fix"], "cannot be read"),
    ],
)
def test_what_makes_no_sense(tmp_path, args, words):
    (tmp_path / "train.py").write_text(BAD)
    result = oomph(*args, cwd=tmp_path)
    assert result.returncode == 2
    assert words in result.stderr
    assert "Traceback" not in result.stderr
