"""The real Python code of torch.cuda and torch.accelerator over a simulated GPU: nothing of it is replaced here."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")


def test_script_and_recorder_each_read_their_own_peaks():
    done = subprocess.run(
        [sys.executable, "-m", "oomph", "trace", "--gpu", "a100-40gb", "--steps", "all", "--", "traced.py"],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "compared " in done.stderr
