"""Options that several commands have, in one place, so that they read and work the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from oomph.cli.codes import complete_checks, complete_codes

F = TypeVar("F", bound=Callable[..., Any])


def rule_options(command: F) -> F:
    """`--select` and `--ignore`: which rules are used."""
    select = click.option(
        "--select",
        metavar="CODES",
        multiple=True,
        shell_complete=complete_codes,
        help="Use only these rules: codes or beginnings of codes (OOM2), separated by commas.",
    )
    ignore = click.option(
        "--ignore",
        metavar="CODES",
        multiple=True,
        shell_complete=complete_codes,
        help="Leave these rules out.",
    )
    return select(ignore(command))


def check_options(command: F) -> F:
    """`--select` and `--ignore` of the command whose checks they are."""
    select = click.option(
        "--select",
        metavar="CODES",
        multiple=True,
        shell_complete=complete_checks,
        help="Make only these checks: codes or beginnings of codes (ENV4), separated by commas.",
    )
    ignore = click.option(
        "--ignore",
        metavar="CODES",
        multiple=True,
        shell_complete=complete_checks,
        help="Leave these checks out.",
    )
    return select(ignore(command))


def redact_option(command: F) -> F:
    """`--redact`."""
    return click.option("--redact", is_flag=True, help="Leave out user names, host names, paths and tokens.")(
        command
    )


def fan_out_options(command: F) -> F:
    """`--engine`, `--jobs` and `--engine-option`: who reads many files (`cli.fan_out`)."""
    engine = click.option(
        "--engine",
        type=click.Choice(["local", "slurm", "ray"]),
        help="Have many files read by tasks of this engine; the answer is the same.  [default: local with --jobs]",
    )
    jobs = click.option(
        "--jobs",
        metavar="N",
        type=click.IntRange(min=1, max=10_000),
        help="So many tasks at once.  [default with --engine local: one for each CPU, else 8]",
    )
    option = click.option(
        "--engine-option",
        "engine_options",
        metavar="KEY=VALUE",
        multiple=True,
        help="An option of the engine (partition=cpu for slurm): docs/engines.md.",
    )
    return engine(jobs(option(command)))


def quiet_option(command: F) -> F:
    """`-q`."""
    return click.option("-q", "--quiet", is_flag=True, help="Nothing on stderr but errors.")(command)


def colour_option(command: F) -> F:
    """`--color`."""
    return click.option(
        "--color",
        "colour",
        type=click.Choice(["auto", "always", "never"]),
        default="auto",
        show_default=True,
        help="Colour; auto honours NO_COLOR, FORCE_COLOR and pipes.",
    )(command)
