"""The work of `oomph plan`: understand the job, predict it, answer.

`planned` and `show` are for other commands that plan too: a search for what fits makes many plans and shows one.
"""

from __future__ import annotations

import dataclasses
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from oomph.cli.output import check_target, emit, one_line, write_file
from oomph.cli.settings import load_settings
from oomph.errors import UsageError

if TYPE_CHECKING:
    from oomph.cli.plan import Request
    from oomph.cli.plan_job import Understood
    from oomph.predict.model import Plan, RankPlan

#: Values of `--format`; a project's setting of another one (sarif) is for `explain`.
FORMATS = ("text", "json", "markdown", "html")
_SPAN = re.compile(r"(\d+)(?:\s*(?:-|to)\s*(\d+))?")


def run(request: Request) -> int:
    """Does what the command line asks for; returns the exit code. Raises OomphError."""
    output_format = _format(request)
    _check_files(request)
    from oomph.cli.plan_job import job_of

    understood = job_of(request)
    if request.save_job is not None:
        _save_job(request, understood)
    from oomph.cli import plan_fit

    if plan_fit.asked(request):
        return plan_fit.run(request, understood, output_format)
    plan = planned(understood, replay=request.replay)
    return show(plan, request, output_format)


def planned(understood: Understood, *, replay: bool) -> Plan:
    """The prediction for a job that was asked for, with what had to be assumed for it. Raises UsageError for a job that
    cannot be."""
    from oomph.api import plan_job

    plan = plan_job(understood.job, replay=replay, unsupported=understood.unsupported)
    return dataclasses.replace(
        plan,
        assumptions=tuple(dict.fromkeys((*understood.assumptions, *plan.assumptions))),
        notes=tuple(dict.fromkeys((*understood.notes, *plan.notes))),
    )


def show(plan: Plan, request: Request, output_format: str) -> int:
    """Prints the plan, or writes it to the file of -o; returns the exit code."""
    shown = _rank(plan, request.rank)
    from oomph.report.plan.words import exit_code

    text, colour = _render(plan, shown, request, output_format)
    if request.output_path is None:
        emit(text, colour=colour)
    else:
        write_file(request.output_path, text)
        _say_written(str(request.output_path), request)
    code = exit_code(plan)
    return 0 if request.exit_zero and code == 1 else code


def _format(request: Request) -> str:
    settings = load_settings(Path.cwd())
    return request.output_format or (settings.format if settings.format in FORMATS else None) or "text"


def _check_files(request: Request) -> None:
    """Raises UsageError before any work is done."""
    if not request.inputs:
        raise UsageError(
            "Nothing to plan: name a model or a job file, as in: oomph plan meta-llama/Llama-3.1-8B --gpu h100"
        )
    if request.output_path is not None:
        check_target(request.output_path, request.inputs)
    if request.save_job is not None:
        check_target(Path(request.save_job), option="--save-job")
        if not request.save_job.lower().endswith(".toml"):
            raise UsageError(f"--save-job {request.save_job}: a job file ends in .toml")
        if (
            request.output_path is not None
            and request.output_path.resolve() == Path(request.save_job).resolve()
        ):
            raise UsageError(f"{request.save_job}: two outputs go to this file; give each a path of its own")


def _rank(plan: Plan, asked: str | None) -> RankPlan | None:
    """The ranks that are like the one asked for; None for the ones that need the most."""
    if asked is None or not plan.ranks:
        return None
    word = asked.strip()
    if not (word.isascii() and word.isdigit() and len(word) < 10):
        raise UsageError(f"--rank {asked[:60]!r}: give the number of a rank")
    rank, every = int(word), plan.job.parallel.ranks
    if rank >= every:
        there = f"there are {every:,} ranks, 0 to {every - 1}" if every > 1 else "there is one rank, 0"
        raise UsageError(f"--rank {rank}: {there}")
    for each in plan.ranks:
        if _names(each.ranks, rank):
            return each
    earlier = [each for each in plan.ranks if each.first_rank <= rank]
    return max(earlier, key=lambda each: each.first_rank) if earlier else None


def _names(ranks: str, rank: int) -> bool:
    """Whether a text such as "ranks 0-3, 8" names a rank."""
    if ranks.startswith("all"):
        return True
    spans = [(int(span[1]), int(span[2] or span[1])) for span in _SPAN.finditer(ranks)]
    return any(first <= rank <= last for first, last in spans)


def _render(plan: Plan, shown: RankPlan | None, request: Request, output_format: str) -> tuple[str, bool]:
    """The answer in one of `FORMATS`, and whether it has colour. Only the renderer that is asked for is imported."""
    if output_format == "json":
        from oomph.report.plan.json import render_json

        return render_json(plan, shown), False
    if output_format == "markdown":
        from oomph.report.plan.markdown import render_markdown

        return render_markdown(plan, shown, everything=request.explain), False
    if output_format == "html":
        from oomph.report.plan.html import render_html

        return render_html(plan, shown), False
    from oomph.cli.terminal import DEFAULT_WIDTH, can_draw, use_colour, width
    from oomph.report.plan.text import PlanOptions, render_text

    to_file = request.output_path is not None
    colour = request.colour == "always" if to_file else use_colour(request.colour, sys.stdout)
    options = PlanOptions(
        width=DEFAULT_WIDTH if to_file else width(),
        colour=colour,
        unicode=to_file or can_draw(sys.stdout),
        everything=request.explain,
    )
    return render_text(plan, options, shown), colour


def _save_job(request: Request, understood: Understood) -> None:
    from oomph.job.toml import to_toml

    write_file(Path(str(request.save_job)), to_toml(understood.job))
    _say_written(str(request.save_job), request)


def _say_written(path: str, request: Request) -> None:
    if not request.quiet:
        click.echo(one_line(f"wrote {path}"), err=True)
