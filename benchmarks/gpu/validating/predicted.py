"""What a plan and a trace say of the same job, phase by phase."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from benchmarks.gpu.validating.points import row
from benchmarks.gpu.validating.works import Work
from oomph.errors import OomphError
from oomph.phases import Phase
from oomph.predict.model import Plan

JOB = Path(__file__).with_name("job.py")


def plan_of(work: Work, facts: dict[str, Any]) -> Plan | str:
    """The plan, with an evaluation of the training's batch; or why there is none."""
    from oomph.api import plan_job
    from oomph.job.importers.points import from_point
    from oomph.job.model import Evaluation

    with tempfile.TemporaryDirectory() as folder:
        point = row(work, facts)
        (Path(folder) / point["model"]["config"]).write_text(json.dumps(work.config), encoding="utf-8")
        try:
            job = from_point({**point, "metric": "max_allocated", "value_bytes": 1}, Path(folder))
            job = replace(job, evaluation=Evaluation(batch=work.micro, sequence=work.sequence))
            job = replace(job, batch=replace(job.batch, padding="off"))
            plan = plan_job(job)
        except OomphError as error:
            return str(error)
    return plan if plan.ranks else "; ".join(plan.unsupported)


def traced(spec: Path, gpu: str, torch: str, seconds: float) -> dict[Phase, int] | str:
    """Allocated bytes of each phase by `oomph trace`, on no GPU; or why there are none."""
    command = [
        sys.executable,
        "-m",
        "oomph",
        "trace",
        "--format",
        "json",
        "--exit-zero",
        "--no-stacks",
        "--quiet",
    ]
    command += ["--torch", ".".join(torch.split("+")[0].split(".")[:2])]
    command += [] if gpu == "unspecified" else ["--gpu", gpu]
    command += ["--steps", "all", "--", str(JOB), str(spec), "--device", "cuda"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=seconds)
    except subprocess.TimeoutExpired:
        return f"not done after {seconds:.0f} s"
    try:
        phases = json.loads(done.stdout)["traces"][0]["devices"][0]["phases"]
        return {Phase(each["phase"]): int(each["peak"]["allocated_bytes"]) for each in phases}
    except (ValueError, KeyError, IndexError, TypeError):
        return " ".join(done.stderr.split())[-300:] or f"exit code {done.returncode}"
