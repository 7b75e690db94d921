"""`oomph explain PATH...`: from what a failed job left behind to the cause and the first change."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from oomph.cli.codes import chosen_rules
from oomph.cli.options import colour_option, fan_out_options, quiet_option, redact_option, rule_options
from oomph.cli.output import check_target, emit, one_line, write_file

if TYPE_CHECKING:
    from oomph.diagnose.model import Diagnosis
    from oomph.evidence.sources import Elsewhere
    from oomph.report.options import ReportOptions


@dataclass(frozen=True)
class Request:
    """The command line of `oomph explain`, as click read it; field names are the options'."""

    paths: tuple[str, ...]
    output_format: str | None
    output: str | None
    redact: bool
    rank: int | None
    show_all: bool
    explain_evidence: bool
    follow: bool
    job: tuple[str, ...]
    compare: bool | None
    select: tuple[str, ...]
    ignore: tuple[str, ...]
    engine: str | None
    jobs: int | None
    engine_options: tuple[str, ...]
    quiet: bool
    verbose: bool
    colour: str
    exit_zero: bool

    @property
    def target(self) -> Path | None:
        """The file of -o; None for standard output."""
        return None if self.output in (None, "-") else Path(str(self.output))


@click.command(name="explain", short_help="Why a job ran out of GPU memory.")
@click.argument("paths", metavar="[PATH]...", nargs=-1, type=click.Path())
@click.option(
    "--format",
    "output_format",
    type=click.Choice(["text", "json", "markdown", "sarif", "github"]),
    help="How to print the answer.  [default: text]",
)
@click.option(
    "-o", "--output", metavar="FILE", type=click.Path(), help="Write to FILE instead of standard output."
)
@redact_option
@click.option(
    "--rank",
    metavar="N",
    type=click.IntRange(min=0),
    help="Explain the failure of rank N; exit code 2 when no failure of rank N is known.",
)
@click.option("--all", "show_all", is_flag=True, help="List every OOM in the input, not only the fatal one.")
@click.option(
    "--explain-evidence", is_flag=True, help="Quote the lines that each number and verdict rests on."
)
@click.option(
    "--follow",
    is_flag=True,
    help="Watch a growing log, which need not exist yet, and explain at the moment of failure; ends when the log says "
    "that training finished.",
)
@click.option(
    "--job",
    metavar="FILE",
    multiple=True,
    help="What was trained, for predictions beside the advice: a job file, a config.json, the trainer's files, or a "
    "model's name; several together. What they leave open is looked for in the log.",
)
@click.option(
    "--compare/--no-compare",
    default=None,
    help="Say what differs between two runs (text only).  [default: when two logs of different runs both failed]",
)
@rule_options
@fan_out_options
@quiet_option
@click.option(
    "-v", "--verbose", is_flag=True, help="Say on stderr what was read; show the traceback of a bug."
)
@colour_option
@click.option("--exit-zero", is_flag=True, help="Exit with 0 even when something was found.")
@click.pass_context
def command(ctx: click.Context, /, **options: object) -> None:
    """Say why a job ran out of GPU memory: which phase, rank and bytes, the cause, and the first change.

    PATH is a log, a folder of logs (torchrun --log-dir), a run directory of `oomph record`, a notebook, nvidia-smi
    output, a memory snapshot, or a glob of such; any mix, plain or compressed, told apart by content. "-", or no PATH
    with a pipe, reads standard input. A snapshot of the same failure as a log is joined to it, and so is what a run
    recorded of it.

    Exit codes: 0 no failure for lack of memory (or the job recovered), 1 a failure was found, 2 nothing could be
    read, or the command line is wrong, 130 interrupted with Ctrl-C.
    """
    request = Request(**options)  # type: ignore[arg-type] # click has checked the types
    ctx.find_root().meta["oomph.verbose"] = request.verbose
    if request.redact:
        ctx.find_root().meta["oomph.private"] = (
            *request.paths,
            *([request.output] if request.output else []),
        )
    ctx.exit(_run(ctx, request))


def _run(ctx: click.Context, request: Request) -> int:
    from oomph.cli.compare import check_wanted, compare_runs, two_runs, worth_a_look
    from oomph.cli.render import render, render_comparison
    from oomph.cli.settings import load_settings

    paths = _paths(ctx, request.paths)
    if request.engine or request.jobs:
        if request.follow:
            raise click.UsageError("--follow watches one log: leave --engine and --jobs out", ctx)
        if request.compare:
            raise click.UsageError("--compare looks at two runs: leave --engine and --jobs out", ctx)
    if request.target is not None:
        check_target(request.target, paths)
    settings = load_settings(Path.cwd())
    output_format = request.output_format or settings.format or "text"
    select, ignore = chosen_rules(request.select, request.ignore, settings)
    options = _report_options(request, output_format)
    if request.compare:
        if request.job:
            raise click.UsageError("--compare looks at two runs; leave --job out", ctx)
        check_wanted(request, paths, output_format)
        comparison = compare_runs(paths, select, ignore)
        return _finish(render_comparison(comparison, options), comparison.exit_code, options, request)
    diagnosis = _diagnose(paths, select, ignore, request)
    _check_rank(diagnosis, request.rank)
    if request.compare is None and not request.job and worth_a_look(request, paths, output_format, diagnosis):
        runs = two_runs(paths, select, ignore)
        if runs is not None:
            return _finish(render_comparison(runs, options), runs.exit_code, options, request)
    return _finish(render(diagnosis, output_format, options), diagnosis.exit_code, options, request)


def _paths(ctx: click.Context, paths: tuple[str, ...]) -> tuple[str, ...]:
    """The paths as given; standard input when there are none and it is not a terminal."""
    if any(not path.strip() for path in paths):
        # "$LOG" with LOG unset: Path("") would be the current folder.
        raise click.UsageError("A PATH is empty (an unset variable?): name a log or a folder.", ctx)
    if paths:
        return paths
    if sys.stdin is None or sys.stdin.isatty():
        raise click.UsageError("Name a log or a folder, or pipe a log in.", ctx)
    return ("-",)


def _diagnose(
    paths: Sequence[str], select: Sequence[str], ignore: Sequence[str], request: Request
) -> Diagnosis:
    from oomph.api import explain
    from oomph.cli.fan_out import asked_engine
    from oomph.cli.progress import Progress

    stdin = None if sys.stdin is None else sys.stdin.buffer  # None: pythonw, or a closed descriptor
    progress = Progress(sys.stderr, verbose=request.verbose, quiet=request.quiet)

    def explain_now(elsewhere: Elsewhere | None = None) -> Diagnosis:
        started = time.monotonic()
        more: dict[str, Any] = {"job": request.job} if request.job else {}
        if elsewhere is not None:
            more["elsewhere"] = elsewhere
        try:
            diagnosis = explain(
                paths, select=select, ignore=ignore, rank=request.rank, progress=progress, stdin=stdin, **more
            )
        finally:
            progress.finish()
        if request.verbose and not request.quiet:
            _say_what_was_read(diagnosis, time.monotonic() - started, request)
        return diagnosis

    def say(sentence: str, *, important: bool = False) -> None:
        if not request.quiet and (important or request.verbose or sys.stderr.isatty()):
            click.echo(f"oomph: {one_line(_shown(sentence, request, paths))}", err=True)

    if not request.follow:
        with asked_engine(request) as engine:
            if engine is None:
                return explain_now()
            from oomph.trial.fanout.logs import reads_elsewhere

            return explain_now(reads_elsewhere(engine, lambda sentence: say(sentence, important=True)))
    from oomph.cli.follow import Watch

    return Watch(paths, explain_now, say).run()


def _shown(sentence: str, request: Request, names: Sequence[str]) -> str:
    """A sentence for stderr; with --redact without the `names` of files in it."""
    if not request.redact:
        return sentence
    from oomph.report.redact import redact_names

    return redact_names(sentence, names)


def _say_what_was_read(diagnosis: Diagnosis, seconds: float, request: Request) -> None:
    documents = diagnosis.evidence.documents
    names = [document.source for document in documents]
    for document in documents:
        sentence = f"read {document.source}: {document.size_bytes:,} bytes"
        click.echo(_shown(sentence, request, names), err=True)
    click.echo(f"{len(documents)} inputs in {seconds:.2f} s", err=True)
    if diagnosis.no_plan:
        click.echo(one_line(_shown(f"nothing is predicted: {diagnosis.no_plan}", request, names)), err=True)


def _check_rank(diagnosis: Diagnosis, rank: int | None) -> None:
    """Refuses a rank of which the input says nothing."""
    if rank is None:
        return
    from oomph.errors import UsageError

    known = {incident.rank for incident in diagnosis.incidents if incident.rank is not None}
    known |= set(diagnosis.ranks.consequences) | set(diagnosis.ranks.failed)
    if rank not in known:
        ranks = ", ".join(str(number) for number in sorted(known))
        raise UsageError(
            f"--rank {rank}: " + (f"failures are known of rank {ranks}" if known else "no rank is named")
        )


def _report_options(request: Request, output_format: str) -> ReportOptions:
    """What the place that the answer goes to can show, and what was asked for."""
    from oomph.cli.terminal import DEFAULT_WIDTH, can_draw, use_colour, width
    from oomph.report.options import ReportOptions

    to_file = request.target is not None
    colour = request.colour == "always" if to_file else use_colour(request.colour, sys.stdout)
    return ReportOptions(
        width=DEFAULT_WIDTH if to_file else width(),
        colour=colour and output_format == "text",
        all_incidents=request.show_all,
        rank=request.rank,
        explain_evidence=request.explain_evidence,
        redact=request.redact,
        unicode=to_file or can_draw(sys.stdout),
    )


def _finish(text: str, exit_code: int, options: ReportOptions, request: Request) -> int:
    """Writes the answer where it was asked for, and returns the command's exit code."""
    if request.target is None:
        emit(text, colour=options.colour)
    else:
        write_file(request.target, text)
        if not request.quiet:
            click.echo(one_line(_shown(f"wrote {request.target}", request, [str(request.target)])), err=True)
    return 0 if request.exit_zero else exit_code
