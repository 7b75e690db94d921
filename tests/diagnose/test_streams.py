"""stdout and stderr of one process are two files; what one says is evidence about the other."""

from __future__ import annotations

import pytest

import oomph
from oomph.diagnose.streams import other_stream
from oomph.evidence.model import Document, Evidence

TRACEBACK = """Traceback (most recent call last):
  File "/job/train.py", line 9, in <module>
    loss.backward()
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.00 GiB. GPU 0 has a total capacity of 10.00 GiB of \
which 512.00 MiB is free. Including non-PyTorch memory, this process has 9.50 GiB memory in use. Of the allocated \
memory 9.00 GiB is allocated by PyTorch, and 100.00 MiB is reserved by PyTorch but unallocated.
"""


def evidence_of(*sources: str) -> Evidence:
    return Evidence(documents=tuple(Document(source, [], index) for index, source in enumerate(sources)))


@pytest.mark.parametrize(
    ("a", "b", "paired"),
    [
        ("logs/0/stdout.log", "logs/0/stderr.log", True),
        ("slurm-7.out", "slurm-7.err", True),
        ("job.o4711", "job.e4711", True),
        ("logs/0/stdout.log", "logs/1/stderr.log", False),
        ("slurm-7.out", "slurm-8.err", False),
        ("train.log", "other.log", False),
        ("about.log", "aberr.log", False),
    ],
)
def test_only_the_name_of_the_stream_may_differ(a: str, b: str, paired: bool):
    assert (other_stream(evidence_of(a, b), 0) == 1) is paired


def test_a_fatal_failure_on_stderr_comes_after_the_steps_on_stdout(tmp_path):
    (tmp_path / "stdout.log").write_text("step 1 loss 3.2\nstep 2 loss 3.1\nstep 3 loss 3.0\n")
    (tmp_path / "stderr.log").write_text(TRACEBACK)
    diagnosis = oomph.explain([tmp_path])
    assert diagnosis.phase is not None
    assert diagnosis.phase.first_step is False


def test_without_the_other_stream_nothing_is_said_of_steps(tmp_path):
    (tmp_path / "stderr.log").write_text(TRACEBACK)
    diagnosis = oomph.explain([tmp_path])
    assert diagnosis.phase is not None
    assert diagnosis.phase.first_step is None
