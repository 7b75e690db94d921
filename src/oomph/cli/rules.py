"""`oomph rules`: every rule and check, one line each."""

from __future__ import annotations

from collections.abc import Sequence

import click

from oomph.cli.codes import Documented
from oomph.cli.output import emit


@click.command(name="rules", short_help="List all rules and checks.")
@click.option(
    "--format",
    "output_format",
    type=click.Choice(["text", "json", "markdown"]),
    default="text",
    show_default=True,
    help="How to print the list.",
)
def command(output_format: str) -> None:
    """List all codes with their causes and names: rules of `oomph explain` (OOM), checks of `oomph doctor` (ENV of
    machines, SCR of scripts)."""
    from oomph.cli.codes import load_all

    rules = load_all()
    if output_format == "json":
        from oomph.cli.rule import as_json

        emit(as_json(rules))
    elif output_format == "markdown":
        emit(_markdown(rules))
    else:
        emit(_text(rules))


def _text(rules: Sequence[Documented]) -> str:
    code = max((len(rule.code) for rule in rules), default=0)
    cause = max((len(rule.cause) for rule in rules), default=0)
    return "\n".join(f"{rule.code:<{code}}  {rule.cause:<{cause}}  {rule.name}" for rule in rules)


def _markdown(rules: Sequence[Documented]) -> str:
    rows = [f"| {rule.code} | {rule.cause} | {rule.name} |" for rule in rules]
    return "\n".join(["| Code | Cause | Name |", "|---|---|---|", *rows])
