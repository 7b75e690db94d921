"""The work of `oomph trace`: run the script in a child, read what it left, answer."""

from __future__ import annotations

import shlex
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from oomph.cli.codes import chosen_rules
from oomph.cli.output import emit, one_line, write_file
from oomph.cli.settings import load_settings
from oomph.cli.shown import shown_with
from oomph.cli.trace_check import FORMATS, check, ranks_of
from oomph.cli.trace_settings import Plan, child_request, plan_of
from oomph.errors import InputError, UsageError

if TYPE_CHECKING:
    from oomph.cli.trace import Request
    from oomph.diagnose.snapshot.analysis import Analysis
    from oomph.diagnose.trace.model import TraceReport
    from oomph.report.snapshot.options import SnapshotOptions
    from oomph.report.trace.wire import Largest
    from oomph.tracing.child.request import Outcome


@dataclass(frozen=True)
class Answer:
    """One traced process: its report, what that rests on, and how the script ended."""

    report: TraceReport
    analyses: tuple[Analysis, ...]
    outcome: Outcome


def run(request: Request) -> int:
    """Does what the command line asks for; returns the exit code. Raises OomphError."""
    settings = load_settings(Path.cwd())
    output_format = (
        request.output_format or (settings.format if settings.format in FORMATS else None) or "text"
    )
    from oomph.tracing.device.check import check as check_torch

    check(request, output_format)
    rules = chosen_rules(request.select, request.ignore, settings)
    # What a torch cannot do shows in a process of its own: it may be a crash.
    check_torch()
    largest = None
    with tempfile.TemporaryDirectory(prefix="oomph-trace-") as folder:
        if request.largest is not None:
            from oomph.cli.trace_largest import find_largest

            largest, answers = find_largest(request, rules, Path(folder))
        else:
            answers = trace_all(request, plan_of(request), rules, Path(folder))
    options = shown_with(request, output_format, to_file=request.output_path is not None)
    text = _render(answers, output_format, options, largest)
    for path in request.export:
        _export(path, answers[0], request)
    if request.output_path is None:
        emit(text, colour=options.colour)
    else:
        write_file(request.output_path, text)
        say_written(str(request.output_path), request)
    code = _exit_code(answers)
    return 0 if request.exit_zero and code == 1 else code


def trace_all(
    request: Request, plan: Plan, rules: tuple[Sequence[str], Sequence[str]], folder: Path
) -> list[Answer]:
    """The answer of each rank that was asked for, in order: a later one receives what an earlier one sent. Raises
    InputError where a trace could not be made."""
    from oomph.tracing.ranks.mail import carried

    ranks = ranks_of(request, plan.world)
    with carried(folder):
        return [trace_one(request, plan, rank, rules, folder, many=len(ranks) > 1) for rank in ranks]


def trace_one(
    request: Request,
    plan: Plan,
    rank: int,
    rules: tuple[Sequence[str], Sequence[str]],
    folder: Path,
    *,
    many: bool = False,
) -> Answer:
    """Traces one process. Raises InputError, with what became of it, where that left no trace."""
    from oomph.api import traced_with_analyses
    from oomph.tracing.child.launch import run as run_child

    out = trace_file(request, rank, folder, many=many)
    if request.verbose and not request.quiet:
        who = f", rank {rank} of {plan.world}" if plan.world > 1 else ""
        say(request, f"tracing {plan.target.shown}{who} for a {plan.settings.gpu.name}")
    outcome = run_child(child_request(request, plan, rank, out), quiet=request.quiet)
    if outcome.exit_code == 130 and not outcome.traced:
        raise KeyboardInterrupt
    if not outcome.traced:
        raise InputError(outcome.sentence or f"{plan.target.shown} left no trace.")
    if request.save is not None:
        say_written(str(out), request)
    report, analyses = traced_with_analyses(
        out,
        shlex.join(request.target),
        at=request.at,
        device=request.device,
        what_if=request.what_if,
        select=rules[0],
        ignore=rules[1],
    )
    unfinished = _unfinished(outcome)
    every = (*_ending_notes(outcome), *report.notes, *plan.notes)
    notes = tuple(note for note in dict.fromkeys(every) if note != unfinished)
    # The file of a trace that is not kept has a name that means nothing.
    source = plan.target.shown if request.save is None else str(out)
    snapshot = replace(report.snapshot, source=source)
    report = replace(report, snapshot=snapshot, notes=notes, unfinished=unfinished)
    return Answer(report, analyses, outcome)


def _unfinished(outcome: Outcome) -> str:
    """Why the script did not come to its end, where that was neither asked for nor an exception of its own; or what
    is missing in what was asked for."""
    from oomph.tracing.child.request import Ending

    if outcome.ending is Ending.STEPS:
        return outcome.sentence
    stopped = (Ending.INTERRUPTED, Ending.LIMIT, Ending.GPU_CODE, Ending.EXITED)
    return (outcome.sentence or "It was stopped.") if outcome.ending in stopped else ""


def _ending_notes(outcome: Outcome) -> list[str]:
    """That the answer is for a part of the script only."""
    from oomph.tracing.child.request import Ending

    if outcome.ending is Ending.STEPS:
        from oomph.report.words import plural

        done = plural(outcome.steps_done, "optimizer step")
        told = (
            f"The script was stopped after {done}: what it does later, such as evaluation or saving, is not in the "
            "answer (--steps all runs to its end)."
        )
        return [told]
    return [outcome.sentence] if outcome.sentence else []


def trace_file(request: Request, rank: int, folder: Path, *, many: bool) -> Path:
    """Where a rank's trace goes: --save, of several ranks with the rank in the name, else a folder that goes away."""
    if request.save is None:
        return folder / f"rank{rank}.pickle"
    path = Path(request.save)
    if not many:
        return path.absolute()
    return path.with_name(f"{path.stem}-rank{rank}{path.suffix}").absolute()


def _exit_code(answers: Sequence[Answer]) -> int:
    """1 where memory runs out, or may; else 2 where a script did not come to its end by its own or our doing."""
    from oomph.tracing.child.request import Ending

    unfinished = {Ending.FAILED, Ending.GPU_CODE, Ending.EXITED, Ending.CRASHED, Ending.REFUSED}
    if any(answer.report.exit_code == 1 for answer in answers):
        return 1
    endings = {answer.outcome.ending for answer in answers}
    if Ending.INTERRUPTED in endings:
        return 130
    return 2 if endings & unfinished else max(answer.report.exit_code for answer in answers)


def say(request: Request, sentence: str) -> None:
    """A sentence for people on stderr; with --redact without the names of files in it."""
    click.echo(f"oomph: {_shown(sentence, request)}", err=True)


def say_written(path: str, request: Request) -> None:
    """That a file was written."""
    if not request.quiet:
        click.echo(_shown(f"wrote {path}", request), err=True)


def _shown(sentence: str, request: Request) -> str:
    if not request.redact:
        return one_line(sentence)
    from oomph.report.redact import redact_names

    outputs = [name for name in (request.output, request.save) if name]
    return one_line(redact_names(sentence, (*request.target, *request.export, *outputs)))


def _render(
    answers: Sequence[Answer], output_format: str, options: SnapshotOptions, largest: Largest | None
) -> str:
    """The answer in one of `FORMATS`. Only the renderer that is asked for is imported."""
    reports = [answer.report for answer in answers]
    if output_format == "html":
        from oomph.report.trace.html import render_html

        return render_html(reports[0], answers[0].analyses, options)
    if output_format == "json":
        from oomph.report.trace.json import render_json

        return render_json(reports, options, largest)
    if output_format == "markdown":
        from oomph.report.trace.markdown import render_markdown

        return render_markdown(reports, options, largest)
    from oomph.report.trace.text import render_text

    return render_text(reports, options, largest)


def _export(path: str, answer: Answer, request: Request) -> None:
    from oomph.report.exports import export

    if not answer.analyses:
        raise UsageError(f"{path}: nothing was allocated on any GPU, there is nothing to export")
    export(path, answer.analyses[answer.report.snapshot.shown], redact=request.redact)
    say_written(path, request)
