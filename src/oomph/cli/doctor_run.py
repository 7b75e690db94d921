"""The work of `oomph doctor`: look, check, answer."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from oomph.cli.codes import chosen_checks
from oomph.cli.output import check_target, emit, one_line, write_file
from oomph.cli.settings import load_settings
from oomph.errors import UsageError

if TYPE_CHECKING:
    from oomph.cli.doctor import Request
    from oomph.diagnose.machine.model import Checkup
    from oomph.report.options import ReportOptions

FORMATS = ("text", "json", "markdown", "sarif")


def run(request: Request) -> int:
    """Does what the command line asks for; returns the exit code. Raises OomphError."""
    for name in (*request.files, *request.scripts, *request.job):
        if not name.strip():
            # "$LOG" with LOG unset: Path("") would be the current folder.
            raise UsageError("a PATH is empty (an unset variable?): name a file or a folder")
    if request.here and request.files:
        raise UsageError("--here checks this machine, and PATH or --from another one: leave one out")
    if request.here and not request.scripts:
        raise UsageError("--here goes with --script: without PATH this machine is checked anyway")
    if (request.fix or request.diff) and not request.scripts:
        raise UsageError("--fix and --diff change scripts: name them with --script")
    if request.fix and request.diff:
        raise UsageError("--diff shows what --fix would change: leave one out")
    inputs = (*request.files, *request.scripts, *request.job)
    if request.output_path is not None:
        check_target(request.output_path, inputs)
    settings = load_settings(Path.cwd())
    preferred = settings.format if settings.format in FORMATS else None
    select, ignore = chosen_checks(request.select, request.ignore, settings)
    if request.diff:
        from oomph.cli.doctor_fix import show

        return show(request, select, ignore)
    if request.fix:
        from oomph.cli.doctor_fix import fix

        fix(request, select, ignore)
    checkup = _checked(request, select, ignore)
    _write(checkup, request, request.output_format or preferred or "text")
    if request.exit_zero:
        return 0
    return 1 if request.strict and checkup.untold else checkup.exit_code


def _checked(request: Request, select: tuple[str, ...], ignore: tuple[str, ...]) -> Checkup:
    from oomph.api_doctor import doctor

    live = {"python": request.python, "pid": request.pid, "ask_cloud": request.ask_cloud}
    if request.files or (request.scripts and not request.here):
        given = [name for name in live if live[name]]
        if given:
            option = f"--{given[0].replace('_', '-')}"
            raise UsageError(f"{option} asks this machine, and files were named instead of it: leave one out")
    stdin = None if sys.stdin is None else sys.stdin.buffer  # None: pythonw, or a closed descriptor
    return doctor(
        request.files,
        scripts=request.scripts,
        job=request.job or None,
        select=select,
        ignore=ignore,
        stdin=stdin,
        python=request.python,
        pid=request.pid,
        ask_cloud=request.ask_cloud,
        here=True if request.here else None,
    )


def _write(checkup: Checkup, request: Request, output_format: str) -> None:
    options = _options(request, output_format)
    text = _rendered(checkup, request, output_format, options)
    if request.output_path is None:
        emit(text, colour=options.colour)
        return
    write_file(request.output_path, text)
    if not request.quiet:
        said = f"wrote {request.output_path}"
        if request.redact:
            from oomph.report.redact import redact_names

            said = redact_names(said, [str(request.output_path)])
        click.echo(one_line(said), err=True)


def _options(request: Request, output_format: str) -> ReportOptions:
    from oomph.cli.terminal import DEFAULT_WIDTH, use_colour, width
    from oomph.report.options import ReportOptions

    to_file = request.output_path is not None
    colour = request.colour == "always" if to_file else use_colour(request.colour, sys.stdout)
    return ReportOptions(
        width=DEFAULT_WIDTH if to_file else width(),
        colour=colour and output_format == "text",
        redact=request.redact,
    )


def _rendered(checkup: Checkup, request: Request, output_format: str, options: ReportOptions) -> str:
    """The answer in one of `FORMATS`. Only the renderer that is asked for is imported."""
    if output_format == "json":
        from oomph.report.doctor.json import render_json

        return render_json(checkup, options)
    if output_format == "markdown":
        from oomph.report.doctor.markdown import render_markdown

        return render_markdown(checkup, options)
    if output_format == "sarif":
        from oomph.cli.codes import load_checks
        from oomph.report.doctor.sarif import render_sarif

        return render_sarif(checkup, options, load_checks())
    from oomph.report.doctor.text import render_text

    return render_text(checkup, options, everything=request.show_all)
