"""The work of `oomph bisect`: check, run the trials, answer."""

from __future__ import annotations

import os
import re
import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from oomph.cli.fan_out import engine_options
from oomph.cli.output import check_target, emit, one_line, write_file
from oomph.errors import UsageError
from oomph.units import size_given

if TYPE_CHECKING:
    from oomph.cli.bisect import Request
    from oomph.trial.answer import Answer
    from oomph.trial.bisect import Told
    from oomph.trial.command import Template
    from oomph.trial.guess import Guess
    from oomph.trial.model import Limits
    from oomph.trial.way import Way

_DURATION = re.compile(r"(\d{1,7}(?:\.\d{1,6})?) ?(s|m|min|h)?\Z")
_SECONDS = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, None: 1.0}


def run(request: Request) -> int:
    """Does what the command line asks for; returns the exit code. Raises OomphError."""
    from oomph.trial.answer import answer_of
    from oomph.trial.bisect import Bisection
    from oomph.trial.engines.registry import make_engine
    from oomph.trial.goal import goal_named
    from oomph.trial.state import FOLDER, State, folder_named, name_of

    if os.name != "posix":
        raise UsageError("oomph bisect needs Linux or macOS: its trials are recorded by oomph record -- CMD.")
    if request.output_path is not None:
        check_target(request.output_path)
    template = _template(request)
    notes = template.check()
    headroom = _share(request.headroom)
    until = None if request.until is None else goal_named(request.until)
    limits, way, guess = _limits(request), _way(request), _guess(request)
    search = _search(request, template)
    name = request.name or name_of(template.command, search)
    folder = folder_named(Path(request.folder or FOLDER), name).absolute()
    options = engine_options(request.engine_options)
    _startable(request, template)
    kept: list[int] = []
    with State(folder, search, fresh=request.fresh) as state, _terminated():
        engine = make_engine(request.engine, **options)
        try:
            bisection = Bisection(
                template=template,
                engine=engine,
                way=way,
                state=state,
                limits=limits,
                until=until,
                guess=guess,
                gpus=request.gpus,
                tell=lambda told: _told(request, told, kept),
            )
            found, trials = bisection.run()
        except KeyboardInterrupt:
            _interrupted(len(state.results), folder)
            raise
        finally:
            engine.close()
    traced = (("--gpu", request.gpu), ("--capacity", request.capacity), ("--world", request.world))
    answer = answer_of(
        template,
        found,
        trials,
        engine=request.engine,
        folder=folder,
        headroom=headroom,
        notes=(*notes, *_kept_note(kept)),
        trace_options=[word for name, value in traced if value is not None for word in (name, str(value))],
    )
    _write(answer, request)
    return 0 if request.exit_zero else answer.exit_code


@contextmanager
def _terminated() -> Iterator[None]:
    """SIGTERM ends a search as Ctrl-C does: trials first."""

    def interrupt(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    try:
        before = signal.signal(signal.SIGTERM, interrupt)
    except ValueError:  # not in the main thread
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _interrupted(trials: int, folder: Path) -> None:
    kept = "1 trial is" if trials == 1 else f"{trials} trials are"
    click.echo(
        one_line(f"oomph: {kept} kept in {folder}; the same command goes on from there"),
        err=True,
    )


def _template(request: Request) -> Template:
    from oomph.trial.command import Template
    from oomph.trial.params import parse_params

    environment = {}
    for text in request.environment:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise UsageError(f"--env {text[:60]!r} has no value: give NAME=VALUE.")
        environment[name] = value
    for text in (*request.command, *request.params, *request.environment):
        try:
            text.encode()
        except UnicodeEncodeError:
            shown = text[:60].encode("ascii", "backslashreplace").decode()
            raise UsageError(f"{shown}: not UTF-8; a search keeps its command as text: rename it.") from None
    return Template(request.command, parse_params(request.params), environment, Path.cwd())


def _startable(request: Request, template: Template) -> None:
    """Raises UsageError for what could not begin on this machine, before anything is kept of it."""
    if request.gpus and request.engine not in ("slurm", "ray"):
        raise UsageError(
            "--gpus belongs to --engine slurm and ray: here a trial has the GPUs that are there (CUDA_VISIBLE_DEVICES)."
        )
    program = template.command[0]
    if (
        request.engine == "local"
        and "{" not in program
        and shutil.which(program, path=template.environment.get("PATH")) is None
    ):
        raise UsageError(
            f"{program[:120]}: no program of that name can be started here; a script needs what runs it before it: "
            "-- python train.py."
        )


def _search(request: Request, template: Template) -> dict[str, Any]:
    """All that the trials depend on: the same search goes on, another one begins anew."""
    import msgspec

    from oomph.trial.same import files_of, variables_of

    return {
        "command": list(template.command),
        "files": files_of(template.command, template.working_directory),
        "variables_of_shell": variables_of(os.environ),
        "variables": msgspec.to_builtins(template.variables),
        "environment": dict(template.environment),
        "working_directory": str(template.working_directory),
        "engine": request.engine,
        "until": request.until,
        "trace": [request.gpu, request.capacity, request.world] if request.engine == "trace" else [],
    }


def _limits(request: Request) -> Limits:
    from oomph.trial.model import Limits

    match = _DURATION.match(request.timeout.strip())
    if match is None:
        raise UsageError(f"--timeout {request.timeout[:40]!r} is no time; give one like 90s, 10min or 2h.")
    seconds = float(match[1]) * _SECONDS[match[2]]
    return Limits(
        seconds=seconds or None,
        memory_bytes=_size("--memory", request.memory),
        disk_bytes=_size("--disk", request.disk),
        free_disk_bytes=_size("--free-disk", request.free_disk) or None,
    )


def _size(option: str, text: str | None) -> int | None:
    if text is None:
        return None
    size = 0 if text.strip() == "0" else size_given(text)
    if size is None or size < 0:
        raise UsageError(f"{option} {text[:40]!r} is no size; give one like 2GiB.")
    return size


def _share(text: str) -> float:
    match = re.match(r"(\d{1,2}(?:\.\d{1,3})?) ?%\Z", text.strip())
    if match is None:
        raise UsageError(f"--headroom {text[:40]!r}: give a share of the card from 0% to 99%.")
    return float(match[1]) / 100


def _way(request: Request) -> Way:
    traced = {"--gpu": request.gpu, "--capacity": request.capacity, "--world": request.world}
    if request.engine == "trace":
        from oomph.trial.traced import Traced

        if request.gpu is None and request.capacity is None:
            raise UsageError("--engine trace: give --gpu NAME or --capacity SIZE, else everything fits.")
        from oomph.cli.snapshot_check import capacity_of
        from oomph.hardware.names import gpu

        capacity_of(request.capacity)
        if request.gpu is not None:
            gpu(request.gpu)  # every trial would be refused
        return Traced(gpu=request.gpu, capacity=request.capacity, world=request.world)
    given = [option for option, value in traced.items() if value is not None]
    if given:
        raise UsageError(
            f"{given[0]} belongs to --engine trace: elsewhere the card is the one that is there."
        )
    from oomph.trial.recorded import Recorded

    return Recorded()


def _guess(request: Request) -> Guess:
    from oomph.trial.guess import Guess

    if not request.jobs:
        return Guess()
    from oomph.api import plan
    from oomph.trial.planned import planned_by

    return Guess(planned_by(plan(list(request.jobs), replay=False).job))


def _kept_note(kept: list[int]) -> tuple[str, ...]:
    """That a part of the answer is older than this run."""
    if not kept:
        return ()
    which = f"Trial {kept[0]}" if len(kept) == 1 else f"Trials {', '.join(str(one) for one in kept[:8])}"
    more = f" and {len(kept) - 8} more" if len(kept) > 8 else ""
    note = (
        f"{which}{more} had been run before: the command, the files that it names and the variables of CUDA, PyTorch "
        "and NCCL are the same. If anything else has changed (an imported module, the machine), take --fresh."
    )
    return (note,)


def _told(request: Request, told: Told, kept: list[int]) -> None:
    """Says how a trial went, and keeps in mind which had been run before."""
    if told.kept:
        kept.append(told.number)
    _tell(request, told)


def _tell(request: Request, told: Told) -> None:
    """A line for each trial on stderr."""
    if request.quiet:
        return
    from oomph.report.bisect.words import outcome_words, setting_words

    words = f"trial {told.number}: {setting_words(told.ask.setting)}"
    if told.result is None:
        if sys.stderr.isatty():
            click.echo(one_line(f"{words} ..."), err=True)
        return
    how = "kept" if told.kept else f"{told.result.seconds:.0f} s"
    more = "" if told.result.outcome.tells else f": {told.result.why}"
    click.echo(one_line(f"{words}: {outcome_words(told.result)} ({how}){more}"), err=True)


def _write(answer: Answer, request: Request) -> None:
    if request.output_format == "json":
        from oomph.report.bisect.json import render_json

        text, colour = render_json(answer), False
    else:
        from oomph.cli.terminal import DEFAULT_WIDTH, use_colour, width
        from oomph.report.bisect.text import render_text
        from oomph.report.options import ReportOptions

        to_file = request.output_path is not None
        colour = request.colour == "always" if to_file else use_colour(request.colour, sys.stdout)
        options = replace(ReportOptions(), width=DEFAULT_WIDTH if to_file else width(), colour=colour)
        text = render_text(answer, options)
    if request.output_path is None:
        emit(text, colour=colour)
    else:
        write_file(request.output_path, text)
        if not request.quiet:
            click.echo(one_line(f"wrote {request.output_path}"), err=True)
