"""The work of `oomph snapshot`: read, answer, export."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from oomph.cli.codes import chosen_rules
from oomph.cli.output import emit, one_line, write_file
from oomph.cli.settings import load_settings
from oomph.cli.shown import shown_with
from oomph.cli.snapshot_check import FORMATS, capacity_of, check, window_ends
from oomph.cli.snapshot_read import Answer, read_all

if TYPE_CHECKING:
    from oomph.cli.snapshot import Request
    from oomph.memory.timeline import Timeline
    from oomph.report.snapshot.options import SnapshotOptions


def run(request: Request) -> int:
    """Does what the command line asks for; returns the exit code. Raises OomphError."""
    from oomph.evidence.snapshot.unpickle import without_collector

    with without_collector():
        return _run(request)


def _run(request: Request) -> int:
    settings = load_settings(Path.cwd())
    output_format = (
        request.output_format or (settings.format if settings.format in FORMATS else None) or "text"
    )
    check(request, output_format)
    rules = chosen_rules(request.select, request.ignore, settings)

    def say(sentence: str) -> None:
        click.echo(f"oomph: {_shown(sentence, request)}", err=True)

    answers, refused = read_all(request, capacity_of(request.capacity), rules, say)
    for sentence in refused:
        say(sentence)
    options = shown_with(request, output_format, to_file=request.target is not None)
    text = _render(
        answers, [_shown(sentence, request) for sentence in refused], output_format, request, options
    )
    for path in request.export:
        _export(path, answers[0], request)
    if request.target is None:
        emit(text, colour=options.colour)
    else:
        write_file(request.target, text)
        _say_written(str(request.target), request)
    code = max(answer.report.exit_code for answer in answers)
    return 0 if request.exit_zero else code


def _shown(sentence: str, request: Request) -> str:
    """A sentence for people, on one line; with --redact without the names of files in it."""
    if not request.redact:
        return one_line(sentence)
    from oomph.report.redact import redact_names

    outputs = () if request.output is None else (request.output,)
    return one_line(redact_names(sentence, (*request.files, *request.export, *outputs)))


def _say_written(path: str, request: Request) -> None:
    if not request.quiet:
        click.echo(_shown(f"wrote {path}", request), err=True)


def _render(
    answers: Sequence[Answer],
    refused: Sequence[str],
    output_format: str,
    request: Request,
    options: SnapshotOptions,
) -> str:
    """The answer in one of `FORMATS`. Only the renderer that is asked for is imported."""
    if output_format == "html":
        from oomph.report.snapshot.html import render_html

        return render_html(answers[0].report, answers[0].analyses, options)
    devices = bool(request.compare) and len(request.files) == 1
    if len(answers) > 1 or devices:
        from oomph.cli.snapshot_several import render_several

        comparing = request.compare is not False
        return render_several(answers, refused, output_format, options, comparing=comparing)
    if output_format == "json":
        from oomph.report.snapshot.json import document
        from oomph.report.snapshot.view import prepare_all

        return document(prepare_all([answers[0].report], options), unreadable=refused)
    if output_format == "markdown":
        from oomph.report.snapshot.markdown import render_markdown

        return render_markdown(answers[0].report, options)
    from oomph.report.snapshot.text import render_text

    return render_text(answers[0].report, options)


def _export(path: str, answer: Answer, request: Request) -> None:
    from oomph.errors import UsageError
    from oomph.report.exports import export

    analysis = answer.shown
    if analysis is None:
        raise UsageError(f"{path}: the snapshot is empty, there is nothing to export")
    first, last = (None, None) if request.window is None else _window(request.window, analysis.timeline)
    export(path, analysis, first=first, last=last, redact=request.redact)
    _say_written(path, request)


def _window(window: str, timeline: Timeline) -> tuple[int | None, int | None]:
    """Positions [first, last) of --window in this trace."""
    begin, end = window_ends(window)
    return (
        None if begin is None else _position(begin, timeline, past=False),
        None if end is None else _position(end, timeline, past=True),
    )


def _position(word: str, timeline: Timeline, *, past: bool) -> int:
    """A number of an event as it is; of seconds the first event that is not earlier, or with `past` that is later."""
    from oomph.diagnose.snapshot.moments import elapsed_us
    from oomph.errors import UsageError
    from oomph.memory.timeline import UNKNOWN

    if not word.endswith("s"):
        return int(word)
    if not len(timeline) or int(timeline.time_us[0]) == UNKNOWN:
        raise UsageError("--window: the events of this snapshot have no times; give numbers of events")
    elapsed, wanted = elapsed_us(timeline), float(word[:-1]) * 1e6
    if not past and wanted > int(elapsed[-1]):
        raise UsageError(f"--window {word}: the trace is {int(elapsed[-1]) / 1e6:.3f} s long")
    return int(elapsed.searchsorted(wanted, side="right" if past else "left"))
