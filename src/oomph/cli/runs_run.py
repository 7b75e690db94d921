"""The work of `oomph runs`."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from oomph.cli.output import check_target, emit, one_line, write_file
from oomph.errors import InputError, UsageError

if TYPE_CHECKING:
    from oomph.cli.runs import Request
    from oomph.diagnose.runs.model import Planned, RunFacts, RunsDiff
    from oomph.recording.store import Store
    from oomph.report.runs.text import RunsOptions

_FAILED = "outcome = oom or outcome = exception or outcome = killed or outcome = interrupted"


def list_runs(request: Request, limit: int, failed: bool, query: str | None) -> int:
    """`oomph runs list`; returns the exit code. Raises OomphError."""
    _check(request)
    asked = query
    if failed:
        asked = f"({_FAILED}) and ({query})" if query and query.strip() else _FAILED
    with _store(request) as store:
        rows = store.rows(asked)
        shown, left_out = rows[:limit], max(0, len(rows) - limit)
        where = "" if asked else f" is recorded below {', '.join(store.roots)}"
        if request.output_format == "json":
            from oomph.report.runs.json import list_json

            text = list_json(shown, left_out, query, store.notes)
        elif request.output_format == "markdown":
            from oomph.report.runs.markdown import list_markdown

            text = list_markdown(shown, left_out, store.notes)
        else:
            from oomph.report.runs.text import list_text

            text = list_text(shown, left_out, _options(request), store.notes, where or " matches")
    return _emit(request, text)


def show_run(request: Request, name: str, everything: bool) -> int:
    """`oomph runs show`."""
    _check(request)
    with _store(request) as store:
        facts, data = store.read(name)
        notes = store.notes
    if request.output_format == "json":
        from oomph.report.runs.json import show_json

        return _emit(request, show_json(facts, data, notes))
    if request.output_format == "markdown":
        from oomph.report.runs.markdown import show_markdown

        return _emit(request, show_markdown(facts, data, everything, notes))
    from oomph.report.runs.text import show_text

    return _emit(request, show_text(facts, data, _options(request, everything), notes))


def diff_runs(
    request: Request, names: Sequence[str], against: str | None, *, everything: bool, plan: bool
) -> int:
    """`oomph runs diff`."""
    _check(request)
    with _store(request) as store:
        run, others = _chosen(store, names, against)
        from oomph.diagnose.runs.diff import diff as hold_against

        if len(others) == 1:
            run, others = _with_categories(store, run, others[0])
        diff = hold_against(run, others)
        if plan and not diff.against_many:
            diff = dataclasses.replace(diff, planned=_planned(store, diff))
        notes = store.notes
    from oomph.report.runs.diff_words import diff_exit_code

    _emit(request, _rendered(diff, request, everything, notes))
    return diff_exit_code(diff)


def _with_categories(store: Store, run: RunFacts, other: RunFacts) -> tuple[RunFacts, list[RunFacts]]:
    """Both with what was alive by category, where both have a memory snapshot."""
    if not (run.number("ooms") and other.number("ooms")):
        return run, [other]
    from oomph.diagnose.runs.categories import has_snapshot, with_categories

    data, before = store.read(run.path)[1], store.read(other.path)[1]
    if not (has_snapshot(data) and has_snapshot(before)):
        return run, [other]
    pairs = [(run, with_categories(run, data)), (other, with_categories(other, before))]
    store.notes += [note for old, new in pairs for note in new.notes if note not in old.notes]
    return pairs[0][1], [pairs[1][1]]


def _planned(store: Store, diff: RunsDiff) -> Planned | None:
    """What the plans of both jobs say, where something differs that may matter."""
    from oomph.diagnose.runs.model import Suspicion
    from oomph.diagnose.runs.worth import planned

    if not any(each.suspicion >= Suspicion.POSSIBLE for each in diff.suspects):
        return None
    return planned(store.read(diff.run.path)[1], store.read(diff.others[0].path)[1])


def _rendered(diff: RunsDiff, request: Request, everything: bool, notes: Sequence[str]) -> str:
    if request.output_format == "json":
        from oomph.report.runs.json import diff_json

        return diff_json(diff, notes)
    if request.output_format == "markdown":
        from oomph.report.runs.markdown import diff_markdown

        return diff_markdown(diff, everything, notes)
    from oomph.report.runs.text import diff_text

    return diff_text(diff, _options(request, everything), notes)


def _chosen(store: Store, names: Sequence[str], against: str | None) -> tuple[RunFacts, list[RunFacts]]:
    """The run, and those that it is held against."""
    if against is None:
        if len(names) < 2:
            raise UsageError(
                "one run is named: name the one that it is held against first, or give --against QUERY"
            )
        *first, last = [store.find(name) for name in names]
        if any(each.path == last.path or (each.id and each.id == last.id) for each in first):
            raise UsageError(f"{names[-1]}: a run cannot be held against itself")
        return last, first
    if len(names) != 1:
        raise UsageError("--against holds one RUN against those that the query finds: name one")
    run = store.find(names[0])
    rows = store.rows(None if against.strip().lower() == "all" else against)
    others = [each for each in rows if each.path != run.path and (not run.id or each.id != run.id)]
    if not others:
        raise InputError(f"--against {against!r}: no other run is so")
    return run, others


def export_run(
    request: Request, name: str, *, prometheus: str | None, tensorboard: str | None, mlflow: str | None
) -> int:
    """`oomph runs export`."""
    if prometheus is None and tensorboard is None and mlflow is None:
        raise UsageError("say where to: --prometheus FILE, --tensorboard FOLDER or --mlflow URI")
    with _store(request) as store:
        _, data = store.read(name)
    from oomph.recording.exports import export

    if prometheus is not None:
        check_target(Path(prometheus), option="--prometheus")
        export(data, f"prometheus:{prometheus}")
        _say(request, f"wrote {prometheus}")
    if tensorboard is not None:
        export(data, f"tensorboard:{tensorboard}")
        _say(request, f"wrote event files below {tensorboard}")
    if mlflow is not None:
        export(data, f"mlflow:{mlflow}")
        _say(request, f"logged to {mlflow}")
    return 0


def copy_run(request: Request, name: str, target: str) -> int:
    """`oomph runs copy`."""
    with _store(request) as store:
        found = store.find(name)
    from oomph.recording.store.mirror import copy

    place = f"{target.rstrip('/')}/{Path(found.path.rstrip('/')).name}"
    count = copy(found.path, place)
    _say(request, f"copied {count:,} files to {place}")
    return 0


def _store(request: Request) -> Store:
    from oomph.recording.store import Store
    from oomph.recording.store.store import DEFAULT

    return Store(request.folders or (DEFAULT,))


def _check(request: Request) -> None:
    if request.target is not None:
        check_target(request.target)


def _options(request: Request, everything: bool = False) -> RunsOptions:
    from oomph.cli.terminal import DEFAULT_WIDTH, can_draw, use_colour, width
    from oomph.report.runs.text import RunsOptions

    to_file = request.target is not None
    return RunsOptions(
        width=DEFAULT_WIDTH if to_file else width(),
        colour=request.colour == "always" if to_file else use_colour(request.colour, sys.stdout),
        unicode=to_file or can_draw(sys.stdout),
        everything=everything,
    )


def _emit(request: Request, text: str) -> int:
    if request.target is None:
        emit(text, colour="\x1b[" in text)
    else:
        write_file(request.target, text)
        _say(request, f"wrote {request.target}")
    return 0


def _say(request: Request, sentence: str) -> None:
    if not request.quiet:
        click.echo(one_line(sentence), err=True)
