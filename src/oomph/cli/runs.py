"""`oomph runs list|show|diff|export|copy`: runs that were recorded, asked for and held against each other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click

from oomph.cli.options import colour_option, quiet_option

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Request:
    """What every command of the group is given."""

    folders: tuple[str, ...]
    output_format: str
    output: str | None
    quiet: bool
    verbose: bool
    colour: str

    @property
    def target(self) -> Path | None:
        """The file of -o; None for standard output."""
        return None if self.output in (None, "-") else Path(str(self.output))


def _places(command: F) -> F:
    """`--runs`, `-q`, `-v`, `--color`."""
    runs = click.option(
        "--runs",
        "folders",
        metavar="FOLDER",
        multiple=True,
        envvar="OOMPH_RUNS",
        help="Where runs are: a folder, or a URL that fsspec knows (s3://bucket/runs).  [default: oomph-runs]",
    )
    verbose = click.option("-v", "--verbose", is_flag=True, help="Show the traceback of a bug.")
    return runs(quiet_option(verbose(colour_option(command))))


def _outputs(command: F) -> F:
    """`--format` and `-o`."""
    form = click.option(
        "--format",
        "output_format",
        type=click.Choice(["text", "json", "markdown"]),
        default="text",
        show_default=True,
        help="How to print the answer.",
    )
    output = click.option(
        "-o", "--output", metavar="FILE", type=click.Path(), help="Write to FILE instead of standard output."
    )
    return form(output(command))


def _everything(command: F) -> F:
    return click.option("--all", "everything", is_flag=True, help="Leave nothing out.")(command)


def _request(ctx: click.Context, options: dict[str, Any]) -> Request:
    names = ("folders", "output_format", "output", "quiet", "verbose", "colour")
    given = {name: options.pop(name) for name in names if name in options}
    request = Request(**{"output_format": "text", "output": None, **given})
    ctx.find_root().meta["oomph.verbose"] = request.verbose
    return request


@click.group(name="runs", short_help="Recorded runs: list them, show one, say what changed.")
def command() -> None:
    """Recorded runs: list them, show one, hold one against others.

    \b
    oomph runs list --failed
    oomph runs list --query "phase.backward.peak > 30GiB and versions.torch ~ 2.6"
    oomph runs show last-failed
    oomph runs diff good-run bad-run
    oomph runs diff last-failed --against "outcome = completed"

    RUN is a run directory or its URL, an id or the beginning of one, a name, last, last-failed, or last~1 (the one
    before the last). Facts and queries: docs/runs.md.
    """


@command.command(name="list", short_help="Runs, newest first.")
@click.option(
    "--limit", metavar="N", type=click.IntRange(min=1), default=20, show_default=True, help="At most N runs."
)
@click.option("--failed", is_flag=True, help="Only runs that failed.")
@click.option(
    "--query",
    metavar="QUERY",
    help="Only runs for which QUERY holds, such as: peak > 30GiB and outcome = oom",
)
@_outputs
@_places
@click.pass_context
def list_command(ctx: click.Context, /, limit: int, failed: bool, query: str | None, **options: Any) -> None:
    """Runs, newest first: outcome, ranks, peak of each phase, GPU, model.

    Exit codes: 0, also where there is no run; 2 the query makes no sense, or nothing could be read.
    """
    request = _request(ctx, options)
    from oomph.cli.runs_run import list_runs

    ctx.exit(list_runs(request, limit, failed, query))


@command.command(name="show", short_help="One run: peaks per phase and rank, fingerprint, outcome.")
@click.argument("run", metavar="RUN")
@_everything
@_outputs
@_places
@click.pass_context
def show_command(ctx: click.Context, /, run: str, everything: bool, **options: Any) -> None:
    """One run: how it ended, peaks per phase and rank with the first step apart, fingerprint, notes. Why it failed is
    said by oomph explain RUN.

    Exit codes: 0, 2 there is no such run.
    """
    request = _request(ctx, options)
    from oomph.cli.runs_run import show_run

    ctx.exit(show_run(request, run, everything))


@command.command(name="diff", short_help="What changed between runs, the most suspicious first.")
@click.argument("runs", metavar="RUN...", nargs=-1, required=True)
@click.option(
    "--against",
    metavar="QUERY",
    help="Hold RUN against all runs for which QUERY holds ('outcome = completed'; all for every other run).",
)
@click.option(
    "--no-plan",
    "plan",
    is_flag=True,
    flag_value=False,
    default=True,
    help="Do not plan the jobs of both runs.",
)
@_everything
@_outputs
@_places
@click.pass_context
def diff_command(
    ctx: click.Context,
    /,
    runs: tuple[str, ...],
    against: str | None,
    plan: bool,
    everything: bool,
    **options: Any,
) -> None:
    """What changed between two runs: versions, arguments, environment, data, code, memory per phase; the most
    suspicious first, each with what it could do to memory.

    The last RUN is held against those before it. With several, or --against, a value that any of them has is no
    change.

    Exit codes: 0 nothing differs that matters to memory, 1 something does, 2 the runs could not be compared.
    """
    request = _request(ctx, options)
    from oomph.cli.runs_run import diff_runs

    ctx.exit(diff_runs(request, runs, against, everything=everything, plan=plan))


@command.command(name="export", short_help="A finished run for Prometheus, TensorBoard or MLflow.")
@click.argument("run", metavar="RUN")
@click.option(
    "--prometheus",
    metavar="FILE",
    type=click.Path(),
    help="Write metrics for node_exporter's textfile collector.",
)
@click.option(
    "--tensorboard", metavar="FOLDER", type=click.Path(), help="Write an event file per rank below FOLDER."
)
@click.option("--mlflow", metavar="URI", help="Log a run to the tracking server or store at URI.")
@_places
@click.pass_context
def export_command(
    ctx: click.Context,
    /,
    run: str,
    prometheus: str | None,
    tensorboard: str | None,
    mlflow: str | None,
    **options: Any,
) -> None:
    """Export a run: Prometheus metrics as text, TensorBoard event files, a run in MLflow.

    Exit codes: 0, 2 there is no such run, or an extra is not installed.
    """
    request = _request(ctx, options)
    from oomph.cli.runs_run import export_run

    ctx.exit(export_run(request, run, prometheus=prometheus, tensorboard=tensorboard, mlflow=mlflow))


@command.command(name="copy", short_help="Copy a run to another folder or file system.")
@click.argument("run", metavar="RUN")
@click.argument("target", metavar="FOLDER")
@_places
@click.pass_context
def copy_command(ctx: click.Context, /, run: str, target: str, **options: Any) -> None:
    """Copy a run directory below FOLDER: on this machine, or at a URL (s3://bucket/runs).

    Exit codes: 0, 2 it could not be copied.
    """
    request = _request(ctx, options)
    from oomph.cli.runs_run import copy_run

    ctx.exit(copy_run(request, run, target))
