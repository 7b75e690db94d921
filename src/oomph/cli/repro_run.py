"""What `oomph repro` does: understand the source, write the script, say what was assumed."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import click

from oomph.cli.output import check_target, emit, one_line, write_file
from oomph.errors import UsageError

if TYPE_CHECKING:
    from oomph.cli.repro import Request
    from oomph.trial.repro.model import Asked, Script


def run(request: Request) -> None:
    """Does what the command line asks for. Raises OomphError."""
    _check(request)
    from oomph.cli.repro_source import asked_of
    from oomph.trial.repro import write

    asked = asked_of(request)
    if request.target is not None:
        asked = dataclasses.replace(asked, name=request.target.name)
    script = write(asked)
    if request.target is None:
        emit(script.text)
    else:
        write_file(request.target, script.text)
    if not request.quiet:
        _say(request, asked, script)


def _check(request: Request) -> None:
    """Raises UsageError before any work is done."""
    if not request.sources:
        raise UsageError(
            "Nothing to reproduce: name a log, a run, a job file or a model, as in: oomph repro train.log -o repro.py"
        )
    if any(not each.strip() for each in (*request.sources, *request.job)):
        raise UsageError("A SOURCE or --job is empty (an unset variable?): name a log, a run or a job")
    target = request.target
    if target is None:
        return
    check_target(target, (*request.sources, *request.job))
    if target.exists() and not request.force:
        raise UsageError(f"{target}: is there already; --force overwrites it")


def _say(request: Request, asked: Asked, script: Script) -> None:
    """On stderr: what the script is of, how it is run, and what was assumed."""
    lines = list(asked.facts)
    if script.assumed:
        lines += ["assumed, because nothing says it:", *(f"  {sentence}" for sentence in script.assumed)]
    if request.target is not None:
        lines.append(f"wrote {request.target}; run it with: {script.command}")
    for line in lines:
        click.echo(one_line(line), err=True)
