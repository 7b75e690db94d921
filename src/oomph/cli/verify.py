"""`oomph verify RUN`: did a recorded run do what it should; for people and for CI."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from oomph.cli.options import colour_option, quiet_option


@dataclass(frozen=True)
class Request:
    """The command line of `oomph verify`, as click read it; field names are the options'."""

    run: str
    jobs: tuple[str, ...]
    checks: str | None
    headroom: str | None
    headroom_first: str | None
    limits: tuple[str, ...]
    growth: str | None
    growth_steps: int | None
    ranks: str | None
    retries: int | None
    select: tuple[str, ...]
    ignore: tuple[str, ...]
    strict: bool
    output_format: str | None
    output: str | None
    junit: str | None
    show_all: bool
    quiet: bool
    verbose: bool
    colour: str
    exit_zero: bool

    @property
    def output_path(self) -> Path | None:
        """The file of -o; None for standard output."""
        return None if self.output in (None, "-") else Path(str(self.output))


@click.command(name="verify", short_help="Did a recorded run do what it should.")
@click.argument("run", metavar="RUN")
@click.option(
    "--plan",
    "jobs",
    metavar="JOB",
    multiple=True,
    help="Also hold each phase against the prediction for this job: what oomph plan takes (a model's name, a job file, "
    "a configuration; several describe one job).",
)
@click.option(
    "--checks",
    metavar="FILE",
    type=click.Path(),
    help="What is asked, as TOML.  [default: the table tool.oomph.verify of pyproject.toml or oomph.toml]",
)
@click.option(
    "--headroom",
    metavar="SIZE|N%",
    help="What is to be left of the card at the peak (4GiB, 10%), and before the first step.  [default: 10%]",
)
@click.option(
    "--headroom-first",
    metavar="SIZE|N%",
    help="What is to be left before the first step.  [default: as --headroom]",
)
@click.option(
    "--limit",
    "limits",
    metavar="[COUNTER:]PHASE=SIZE",
    multiple=True,
    help="No peak of PHASE (peak: of any) above SIZE: backward=30GiB, allocated:eval=20GiB. COUNTER is reserved, "
    "allocated or active.  [default: reserved]",
)
@click.option(
    "--growth",
    metavar="SIZE",
    help="What may stay behind after each step.  [default: 4096 bytes]",
)
@click.option(
    "--growth-steps",
    metavar="N",
    type=click.IntRange(min=4),
    help="Steps after the first two below which growth cannot be told.  [default: 8]",
)
@click.option(
    "--ranks",
    metavar="N%|SIZE",
    help="How far the ranks' peaks may lie apart.  [default: 10%]",
)
@click.option(
    "--retries",
    metavar="N",
    type=click.IntRange(min=0),
    help="How often the allocator may have had to give its cache back.  [default: 0]",
)
@click.option("--select", metavar="CHECKS", multiple=True, help="Only these checks, separated by commas.")
@click.option("--ignore", metavar="CHECKS", multiple=True, help="Leave these checks out.")
@click.option("--strict", is_flag=True, help="What cannot be told counts as failed.")
@click.option(
    "--format",
    "output_format",
    type=click.Choice(["text", "json", "junit"]),
    help="How to print the answer.  [default: text]",
)
@click.option(
    "-o", "--output", metavar="FILE", type=click.Path(), help="Write to FILE instead of standard output."
)
@click.option("--junit", metavar="FILE", type=click.Path(), help="Also write JUnit XML to FILE.")
@click.option("--all", "show_all", is_flag=True, help="List the checks that were skipped, too.")
@quiet_option
@click.option("-v", "--verbose", is_flag=True, help="Show the traceback of a bug.")
@colour_option
@click.option("--exit-zero", is_flag=True, help="Exit with 0 even when a check failed.")
@click.pass_context
def command(ctx: click.Context, /, **options: object) -> None:
    """Check a recorded run: its first step, the room that was left, peaks, retries, growth, evaluation, its ranks, and
    (with --plan) whether it needed what was predicted.

    \b
    oomph verify last
    oomph verify last --headroom 4GiB --limit backward=30GiB --strict
    oomph verify oomph-runs/20261130-sft --plan job.toml --junit verify.xml

    RUN is a run directory, as oomph record leaves it, or what oomph runs calls it (an id, last). Each check passed,
    failed, or could not be told, with the reason: a run that ended early fails a check only where its records prove
    that. docs/runs.md describes the checks.

    Exit codes: 0 no check failed and at least one passed, 1 a check failed (with --strict also: could not be told), or
    nothing could be told at all, 2 the run cannot be read, or the command line is wrong, 130 interrupted with Ctrl-C.
    """
    request = Request(**options)  # type: ignore[arg-type] # click has checked the types
    ctx.find_root().meta["oomph.verbose"] = request.verbose
    from oomph.cli.verify_run import run

    ctx.exit(run(request))
