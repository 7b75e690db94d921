"""Where a rank may come from besides a prefix of torchrun's."""

from __future__ import annotations

from pathlib import Path

import oomph
from tests.diagnose.logs import FORWARD, diagnosed, oom, traceback


def test_mpirun_of_sagemaker():
    log = "[1,mpirank:0,algo-1]<stdout>:step 0 loss 11.9\n"
    log += traceback(FORWARD, oom(gpu=3), prefix="[1,mpirank:11,algo-2]<stderr>:")
    assert diagnosed(log).ranks.first == 11


def test_a_host_before_the_rank():
    log = "gpu-b11: starting\n" + traceback(FORWARD, oom(), prefix="gpu-b11: [rank3]: ")
    assert diagnosed(log).ranks.first == 3


def test_spawn_names_the_process_above_its_traceback():
    log = "torch.multiprocessing.spawn.ProcessRaisedException: \n\n-- Process 3 terminated with the following error:\n"
    assert diagnosed(log + traceback(FORWARD, oom())).ranks.first == 3


def test_composer_names_the_rank_that_crashed():
    log = traceback(FORWARD, oom()) + "ERROR:composer.cli.launcher:Rank 5 crashed with exit code 1.\n"
    assert diagnosed(log).ranks.first == 5


def write(folder: Path, **logs: str) -> Path:
    for name, text in logs.items():
        (folder / f"{name}.out").write_text(text)
    return folder


def test_files_whose_lines_name_different_ranks(tmp_path: Path):
    failing = "10:00:00 [rank 6] start\n" + traceback(FORWARD, oom())
    diagnosis = oomph.explain([write(tmp_path, a="10:00:00 [rank 5] start\nstep 1 loss 2.0\n", b=failing)])
    assert diagnosis.ranks.first == 6


def test_a_word_that_is_the_same_in_all_files_is_no_rank(tmp_path: Path):
    """A LoRA rank, or rank 0's chatter."""
    failing = "adapter: rank 16 alpha 32\n" + traceback(FORWARD, oom())
    diagnosis = oomph.explain([write(tmp_path, a="adapter: rank 16 alpha 32\n", b=failing)])
    assert diagnosis.ranks.first is None


def test_a_file_in_which_several_ranks_speak_is_nobodys(tmp_path: Path):
    both = "[rank 0] start\n[rank 6] start\n" + traceback(FORWARD, oom())
    diagnosis = oomph.explain([write(tmp_path, a="[rank 5] start\n", b=both)])
    assert diagnosis.ranks.first is None
