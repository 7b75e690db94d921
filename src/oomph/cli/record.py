"""`oomph record -- CMD`: runs a command, records where memory goes, and explains when it fails."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from oomph.cli.options import colour_option, quiet_option

if TYPE_CHECKING:
    from oomph.recording.command.model import Ended

_DURATION = re.compile(r"(\d{1,7}(?:\.\d{1,6})?) ?(ms|s|m|min)?\Z")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, None: 1.0}
_LEAST_SECONDS = 0.01


@dataclass(frozen=True)
class Request:
    """The command line of `oomph record`, as click read it; field names are the options'."""

    command: tuple[str, ...]
    run_dir: str | None
    name: str
    tags: tuple[str, ...]
    every: str
    keep: str
    auto: bool
    phases: bool
    explain: bool
    quiet: bool
    colour: str


#: Options end at the first word of the command, which has options of its own.
@click.command(
    name="record",
    short_help="Run a job and record where its memory goes.",
    context_settings={"allow_interspersed_args": False},
)
@click.argument("command", metavar="-- CMD [ARGS]...", nargs=-1, type=click.UNPROCESSED)
@click.option(
    "--run-dir",
    metavar="DIR",
    type=click.Path(),
    help="The run directory; the same one for the commands of all hosts.  [default: OOMPH_RUN_DIR, else a new one in "
    "oomph-runs/]",
)
@click.option("--name", metavar="NAME", default="", help="What the run is called.")
@click.option("--tag", "tags", metavar="KEY=VALUE", multiple=True, help="Something to find the run by.")
@click.option(
    "--every",
    metavar="TIME",
    default="1s",
    show_default=True,
    help="How often the GPUs and the host's memory are looked at; 0 for never.",
)
@click.option(
    "--keep",
    metavar="SIZE",
    default="2GiB",
    show_default=True,
    help="How much of each of the command's streams is kept: the beginning and the end of a longer one.",
)
@click.option(
    "--auto/--no-auto",
    default=True,
    show_default=True,
    help="Have Python scripts that import PyTorch record themselves, through a sitecustomize on PYTHONPATH.",
)
@click.option(
    "--phases",
    is_flag=True,
    help="Have them record their phases, too, without a call of oomph.record(): found by hooks on every module.",
)
@click.option(
    "--explain/--no-explain", default=True, show_default=True, help="Explain on stderr when CMD fails."
)
@quiet_option
@colour_option
@click.pass_context
def command(ctx: click.Context, /, **options: object) -> None:
    """Run CMD, record where its memory goes, and explain when it fails.

    \b
    oomph record -- python train.py
    oomph record -- torchrun --nproc-per-node 8 train.py

    CMD runs as it would without: it gets the signals, the terminal and the keyboard, and its output comes through
    unchanged. A run directory keeps it, per rank where its lines say whose they are, beside what the scripts record of
    themselves and what the GPUs and the host's memory looked like from outside.

    The exit code is CMD's: 128 + N where signal N ended it, 127 where it is not found, 126 where it cannot be run; 2
    where the run directory that was named cannot be used, and CMD was not started.
    """
    request = Request(**options)  # type: ignore[arg-type] # click has checked the types
    if not request.command:
        raise click.UsageError("Name the command to run: oomph record -- python train.py", ctx)
    ctx.exit(_run(ctx, request))


def _run(ctx: click.Context, request: Request) -> int:
    if os.name != "posix":
        raise click.UsageError(
            "oomph record -- CMD needs Linux or macOS; oomph.record() in the script runs anywhere.", ctx
        )
    from oomph import __version__
    from oomph.cli.main import say
    from oomph.recording.command.machine import this_machine
    from oomph.recording.command.model import Asked
    from oomph.recording.command.record import Started, record

    asked = Asked(
        command=request.command,
        run_dir=None if request.run_dir is None else Path(request.run_dir),
        name=request.name,
        tags=_tags(ctx, request.tags),
        every=_seconds(ctx, request.every),
        keep_bytes=_keep(ctx, request.keep),
        auto=request.auto,
        phases=request.phases,
    )
    machine = this_machine() if asked.every > 0 else None
    with contextlib.suppress(OSError, ValueError):
        if machine is not None and machine.why() and not request.quiet:
            say(machine.why())
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
    ended = record(asked, Started(machine, __version__), os.environ, say)
    with contextlib.suppress(
        OSError, ValueError
    ):  # nobody listens: the exit code is the command's all the same
        _tell(request, ended)
    return ended.exit_code


def _tell(request: Request, ended: Ended) -> None:
    """Where the record is and, of a command that failed, why it did; both on stderr."""
    from oomph.cli.main import say

    if ended.directory is None:
        return
    interrupted = ended.signal == signal.SIGINT or ended.exit_code == 128 + signal.SIGINT
    if request.explain and ended.speaks and ended.exit_code not in (0, 126, 127) and not interrupted:
        try:
            _explain(request, ended.directory, ended.lost_end)
        except Exception as error:  # noqa: BLE001 - the command's exit code comes first
            say(f"the run could not be explained ({type(error).__name__}: {error})")
    if not request.quiet and ended.speaks:
        say(f"recorded in {ended.directory}")


def _explain(request: Request, directory: Path, lost_end: bytes) -> None:
    import io

    from oomph.api import explain
    from oomph.cli.terminal import use_colour, width
    from oomph.report.options import ReportOptions
    from oomph.report.text import render_text

    # What no disk would take is explained as what came through a pipe.
    paths = [str(directory), "-"] if lost_end else [str(directory)]
    diagnosis = explain(paths, stdin=io.BytesIO(lost_end))
    options = ReportOptions(width=width(), colour=use_colour(request.colour, sys.stderr))
    click.echo("\n" + render_text(diagnosis, options), err=True, color=True, nl=False)


def _seconds(ctx: click.Context, text: str) -> float:
    match = _DURATION.match(text.strip())
    if match is None:
        raise click.UsageError(f"--every {text[:40]!r} is no time; give one like 1s or 250ms, or 0.", ctx)
    seconds = float(match[1]) * _UNITS[match[2]]
    return 0.0 if seconds == 0 else max(seconds, _LEAST_SECONDS)


def _keep(ctx: click.Context, text: str) -> int:
    from oomph.units import size_given

    size = size_given(text)
    if size is None or size < 0:
        raise click.UsageError(f"--keep {text[:40]!r} is no size; give one like 2GiB.", ctx)
    return size


def _tags(ctx: click.Context, given: tuple[str, ...]) -> dict[str, str]:
    tags: dict[str, str] = {}
    for text in given:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise click.UsageError(f"--tag {text[:60]!r} has no value; give KEY=VALUE.", ctx)
        tags[key] = value
    return tags
