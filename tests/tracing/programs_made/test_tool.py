from __future__ import annotations

import subprocess
import sys


def run(root, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "tools/make_programs.py", *arguments],
        capture_output=True,
        text=True,
        cwd=root,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    return done.stdout


def test_two_families_made_anew_are_those_of_the_files(request):
    """One way of each, and a batch of one where that is another program; and the tables of their parameters."""
    said = run(
        request.config.rootpath, "--check", "--only", "bf16,flash_attention_2,grouped", "llama", "qwen2"
    )
    lines = said.splitlines()
    assert {line.partition(",")[0] for line in lines} == {"transformers-llama", "transformers-qwen2"}
    assert all(line.endswith("the same") for line in lines)
