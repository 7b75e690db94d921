"""A search under Ray and under Slurm's stand-in: the same trials, and the same answer, as on this machine."""

from __future__ import annotations

import importlib.util
import sys

import pytest

from tests.trial import planted
from tests.trial.bisecting import bisect, outcomes, settings

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a CPU whose memory has a limit")


def needs(module: str):
    return pytest.mark.skipif(importlib.util.find_spec(module) is None, reason=f"{module} is not installed")


@needs("ray")
def test_a_batch_that_fits_is_found_under_ray(tmp_path):
    """As tests/trial/test_bisect_causes.py has it under local processes: 20 MiB each, 6 x 20 + 2 = 122 MiB fit in 130,
    7 x 20 + 2 = 142 do not."""
    answer, said = bisect(
        tmp_path,
        "--engine ray --param batch=16:1 -- --batch {batch}",
        script="train.py",
        OOMPH_CPU_CAPACITY="130MiB",
    )
    assert (answer["verdict"], answer["causes"], answer["setting"]) == ("cause", ["batch"], {"batch": 6})
    assert settings(answer, "batch") == [(16,), (1,), (7,), (6,)]
    assert outcomes(answer) == ["oom", "fits", "oom", "fits"]
    assert all(trial["known_by"] == "records" for trial in answer["trials"])
    assert "trial 4: batch=6: fits" in said
    assert "raylet" not in said


@needs("ray")
@pytest.mark.parametrize(
    "isolated",
    [
        planted.the_context,
        planted.the_evaluation_batch,
        planted.the_optimizer,
        planted.a_leak,
    ],
    ids=["context", "evaluation", "optimizer", "leak"],
)
def test_a_cause_is_isolated_under_ray(tmp_path, isolated):
    """By the same trials as under local processes, one for one."""
    isolated(tmp_path, "ray")


@needs("submitit")
def test_a_batch_that_fits_is_found_by_submitit(tmp_path):
    """A job that prints what PyTorch prints, from a batch of 4 on."""
    answer, _ = bisect(
        tmp_path,
        "--engine slurm --engine-option cluster=local --param batch=8:1 -- --batch {batch} --limit 4",
    )
    local = tmp_path / "local"
    local.mkdir()
    here, _ = bisect(local, "--param batch=8:1 -- --batch {batch} --limit 4")
    assert settings(answer, "batch") == settings(here, "batch")
    assert outcomes(answer) == outcomes(here)
    assert answer["setting"] == here["setting"] == {"batch": 3}
