"""`oomph rules`: every rule, one line each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from oomph.cli.output import emit

if TYPE_CHECKING:
    from oomph.diagnose.rules import Rule


@click.command(name="rules", short_help="List all rules.")
@click.option(
    "--format",
    "output_format",
    type=click.Choice(["text", "json", "markdown"]),
    default="text",
    show_default=True,
    help="How to print the list.",
)
def command(output_format: str) -> None:
    """List all rules: code, cause, name."""
    from oomph.cli.codes import load_rules

    rules = load_rules()
    if output_format == "json":
        from oomph.cli.rule import as_json

        emit(as_json(rules))
    elif output_format == "markdown":
        emit(_markdown(rules))
    else:
        emit(_text(rules))


def _text(rules: Sequence[Rule]) -> str:
    code = max((len(rule.code) for rule in rules), default=0)
    cause = max((len(rule.cause) for rule in rules), default=0)
    return "\n".join(f"{rule.code:<{code}}  {rule.cause:<{cause}}  {rule.name}" for rule in rules)


def _markdown(rules: Sequence[Rule]) -> str:
    rows = [f"| {rule.code} | {rule.cause} | {rule.name} |" for rule in rules]
    return "\n".join(["| Code | Cause | Name |", "|---|---|---|", *rows])
