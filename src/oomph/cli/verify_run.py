"""The work of `oomph verify`: read the run, ask, answer."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from oomph.cli.output import check_target, emit, one_line, write_file
from oomph.cli.settings import load_settings, tables_of
from oomph.errors import InputError, UsageError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from oomph.cli.verify import Request
    from oomph.diagnose.verify.model import Verification
    from oomph.diagnose.verify.settings import Settings
    from oomph.predict.model import Plan

FORMATS = ("text", "json", "junit")
#: Bytes of a file of checks at most.
_LARGEST = 1 << 20


def run(request: Request) -> int:
    """Does what the command line asks for; returns the exit code. Raises OomphError."""
    project = load_settings(Path.cwd())
    output_format = request.output_format or (project.format if project.format in FORMATS else None) or "text"
    _check_files(request)
    settings = settings_of(request)
    from oomph.cli.verify_named import run_named

    data = run_named(request.run)
    from oomph.diagnose.verify.run import verify

    found = verify(data, settings, _plan(request))
    _write(found, request, output_format)
    return 0 if request.exit_zero else found.exit_code


def settings_of(request: Request) -> Settings:
    """What is asked: the defaults, the project's table or the file of checks, and flags, which have the last word."""
    from oomph.diagnose.verify import settings as asked
    from oomph.diagnose.verify.checks import NAMES

    base = asked.Settings()
    if request.checks is not None:
        base = asked.from_table(_table(request.checks), request.checks, NAMES, base)
    else:
        source, table = tables_of(Path.cwd(), "verify")
        base = asked.from_table(table, source, NAMES, base)
    changes: dict[str, object] = {}
    if request.headroom is not None:
        changes["headroom"] = asked.amount("--headroom", request.headroom)
    if request.headroom_first is not None:
        changes["headroom_first"] = asked.amount("--headroom-first", request.headroom_first)
    if request.limits:
        changes["limits"] = tuple(asked.limit(text) for text in request.limits)
    if request.growth is not None:
        changes["growth_bytes"] = asked.amount("--growth", request.growth).size_bytes
        if changes["growth_bytes"] is None:
            raise UsageError(f"--growth {request.growth[:60]!r}: give a size, like 1MiB")
    if request.ranks is not None:
        changes["ranks"] = asked.amount("--ranks", request.ranks)
    for name in ("growth_steps", "retries"):
        if getattr(request, name) is not None:
            changes[name] = getattr(request, name)
    for name in ("select", "ignore"):
        words = [word for text in getattr(request, name) for word in text.split(",")]
        if words:
            changes[name] = asked.checks_named(f"--{name}", words, NAMES)
    if request.strict:
        changes["strict"] = True
    return replace(base, **changes)  # type: ignore[arg-type] # each was made for its field


def _table(name: str) -> dict[str, object]:
    """The table of a file of checks: the whole file, or its table tool.oomph.verify. Raises InputError, UsageError."""
    path = Path(name)
    try:
        if path.stat().st_size > _LARGEST:
            raise InputError(f"{name}: larger than {_LARGEST:,} bytes: not a file of checks")
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{name}: not valid TOML: {error}") from error
    except OSError as error:
        raise InputError(f"{name}: cannot be read: {error.strerror or error}") from error
    for part in ("tool", "oomph", "verify"):
        inner = content.get(part)
        if not isinstance(inner, dict):
            return dict(content)
        content = inner
    return dict(content)


def _plan(request: Request) -> Plan | None:
    """The prediction for the job of --plan."""
    if not request.jobs:
        return None
    from oomph.api import plan

    return plan(list(request.jobs), replay=False)


def _check_files(request: Request) -> None:
    """Raises UsageError before any work is done."""
    outputs = [path for path in (request.output_path, _path(request.junit)) if path is not None]
    for path, option in ((request.output_path, "-o"), (_path(request.junit), "--junit")):
        if path is not None:
            check_target(path, (request.run, *request.jobs), option=option)
    if len({path.resolve() for path in outputs}) < len(outputs):
        raise UsageError(f"{outputs[0]}: two outputs go to this file; give each a path of its own")


def _path(name: str | None) -> Path | None:
    return None if name is None else Path(name)


def _write(found: Verification, request: Request, output_format: str) -> None:
    text, colour = _rendered(found, request, output_format)
    if request.output_path is None:
        emit(text, colour=colour)
    else:
        write_file(request.output_path, text)
        _say_written(request.output_path, request)
    junit = _path(request.junit)
    if junit is not None:
        from oomph.report.verify.junit import render_junit

        write_file(junit, render_junit(found))
        _say_written(junit, request)


def _rendered(found: Verification, request: Request, output_format: str) -> tuple[str, bool]:
    """The answer in one of `FORMATS`, and whether it has colour. Only the renderer that is asked for is imported."""
    if output_format == "json":
        from oomph.report.verify.json import render_json

        return render_json(found), False
    if output_format == "junit":
        from oomph.report.verify.junit import render_junit

        return render_junit(found), False
    from oomph.cli.terminal import DEFAULT_WIDTH, use_colour, width
    from oomph.report.options import ReportOptions
    from oomph.report.verify.text import render_text

    to_file = request.output_path is not None
    colour = request.colour == "always" if to_file else use_colour(request.colour, sys.stdout)
    options = ReportOptions(width=DEFAULT_WIDTH if to_file else width(), colour=colour)
    return render_text(found, options, everything=request.show_all), colour


def _say_written(path: Path, request: Request) -> None:
    if not request.quiet:
        click.echo(one_line(f"wrote {path}"), err=True)
