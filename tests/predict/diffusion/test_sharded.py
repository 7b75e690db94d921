"""FLUX under FSDP2: every phase against a trace of the class, whose blocks are units."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from oomph.job.model import Parallel, Precision
from oomph.predict.compose.run import compose, setup_of
from oomph.predict.frameworks import variants
from oomph.predict.peak_sink import PeakSink
from tests.predict.diffusion.cases import ATTENTION
from tests.predict.diffusion.sharded import case_of

_ROOT = Path(__file__).parents[3]
_CASES: dict[str, dict[str, Any]] = {
    "mixed-recomputed": {
        "precision": "fp32",
        "mixed": True,
        "reshards": True,
        "ranks": 4,
        "recomputed": True,
    },
    "lora": {"precision": "bf16", "mixed": False, "reshards": True, "ranks": 4, "lora": ATTENTION},
}


def _traced(settings: dict[str, object]) -> dict[str, int]:
    run = subprocess.run(
        [sys.executable, "-m", "tests.predict.diffusion.sharded", json.dumps(settings)],
        capture_output=True,
        text=True,
        cwd=_ROOT,
        env={**os.environ, "PYTHONPATH": f"{_ROOT / 'src'}{os.pathsep}{_ROOT}"},
        check=False,
    )
    assert run.returncode == 0, run.stderr[-3000:]
    return json.loads(run.stdout.splitlines()[-1])


@pytest.mark.parametrize("name", _CASES)
def test_every_phase_is_within_one_percent(name):
    pytest.importorskip("diffusers")
    settings = _CASES[name]
    job = case_of(settings).job()
    if settings["mixed"]:
        precision = Precision(weights="fp32", compute="bf16", reduce="fp32")
        job = msgspec.structs.replace(job, precision=precision)
    parallel = Parallel(
        strategy="fsdp2_full" if settings["reshards"] else "fsdp2_no_reshard", data=settings["ranks"]
    )
    job = msgspec.structs.replace(job, parallel=parallel)
    sink = PeakSink()
    compose(setup_of(job, variants(job)[0]), sink)
    found = {phase.value: peak.bytes for phase, peak in sink.peaks().items()}
    for phase, size in _traced(settings).items():
        if phase in ("forward", "backward", "optimizer"):
            assert abs(found[phase] / size - 1) <= 0.01, phase
