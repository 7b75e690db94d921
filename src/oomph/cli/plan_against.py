"""`oomph plan [JOB] --against RUN`: what was predicted, and what was recorded."""

from __future__ import annotations

import dataclasses
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from oomph.cli.output import check_target, emit, one_line, write_file
from oomph.errors import UsageError

if TYPE_CHECKING:
    from oomph.cli.plan import Request
    from oomph.cli.plan_job import Understood
    from oomph.diagnose.verify.against.model import Against
    from oomph.evidence.run.data import RunData

FORMATS = ("text", "json")


def asked(request: Request) -> bool:
    """Whether the command line has a run to hold the plan against."""
    return request.more.get("against") is not None


def run(request: Request) -> int:
    """Does what the command line asks for; returns the exit code. Raises OomphError."""
    _check(request)
    from oomph.cli.verify_named import run_named
    from oomph.diagnose.verify.against.compare import against

    data = run_named(str(request.more["against"]))
    understood, source = _understood(request, data)
    from oomph.cli.plan_run import planned

    plan = planned(understood, replay=request.replay)
    from oomph.api import plan_job

    found = against(data, understood.job, plan, lambda job: plan_job(job, replay=False), source)
    text, colour = _rendered(found, request)
    if request.output_path is None:
        emit(text, colour=colour)
    else:
        write_file(request.output_path, text)
        if not request.quiet:
            click.echo(one_line(f"wrote {request.output_path}"), err=True)
    return 0 if request.exit_zero and found.exit_code == 1 else found.exit_code


def _understood(request: Request, data: RunData) -> tuple[Understood, str]:
    """The job that is named, or the one that the run's own records describe, with the flags of the command line."""
    from oomph.cli.plan_job import job_of

    if request.inputs:
        return job_of(request), " ".join(request.inputs)
    from oomph.diagnose.verify.against.recorded_job import recorded_job
    from oomph.job.toml import to_toml

    ran = recorded_job(data)
    # Written as a job file and read again, so that flags change it as they change any other.
    with tempfile.TemporaryDirectory(prefix="oomph-") as folder:
        file = Path(folder) / "run.toml"
        file.write_text(to_toml(ran.job), encoding="utf-8")
        understood = job_of(dataclasses.replace(request, inputs=(str(file),)))
    return (
        dataclasses.replace(
            understood,
            notes=(*ran.notes, *understood.notes),
            unsupported=(*ran.unsupported, *understood.unsupported),
        ),
        "the job that it recorded itself",
    )


def _check(request: Request) -> None:
    """Raises UsageError before any work is done."""
    if request.output_format not in (None, *FORMATS):
        raise UsageError(f"--against prints text or json, not {request.output_format}")
    if request.fit or request.maximum is not None or request.save_job is not None:
        raise UsageError("--against compares one job with a run; leave --fit, --max and --save-job out")
    if request.output_path is not None:
        check_target(request.output_path, (*request.inputs, str(request.more["against"])))


def _rendered(found: Against, request: Request) -> tuple[str, bool]:
    """The answer, and whether it has colour. Only the renderer that is asked for is imported."""
    if request.output_format == "json":
        from oomph.report.verify.against_json import render_json

        return render_json(found), False
    from oomph.cli.terminal import DEFAULT_WIDTH, use_colour, width
    from oomph.report.options import ReportOptions
    from oomph.report.verify.against_text import render_text

    to_file = request.output_path is not None
    colour = request.colour == "always" if to_file else use_colour(request.colour, sys.stdout)
    options = ReportOptions(width=DEFAULT_WIDTH if to_file else width(), colour=colour)
    return render_text(found, options, everything=request.explain), colour
