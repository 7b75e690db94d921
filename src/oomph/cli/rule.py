"""`oomph rule CODE`: what a finding means, what proves it, what to do first, and what not to do."""

from __future__ import annotations

from collections.abc import Sequence

import click

from oomph.cli.codes import Documented, complete_all
from oomph.cli.output import emit

#: Heading -> attribute of a rule, in the order in which they are printed (and stand on the pages in docs/rules).
SECTIONS = {
    "What it means": "means",
    "Decisive evidence": "decisive_evidence",
    "First action": "first_action",
    "How to verify": "verify",
    "Tempting, and wrong": "wrong_advice",
}


@click.command(name="rule", short_help="What a finding means.")
@click.argument("words", metavar="CODE...", nargs=-1, required=True, shell_complete=complete_all)
@click.option(
    "--format",
    "output_format",
    type=click.Choice(["text", "json", "markdown"]),
    default="text",
    show_default=True,
    help="How to print the rule.",
)
def command(words: tuple[str, ...], output_format: str) -> None:
    """Say what a finding means: CODE is the code of a rule or of a check (OOM203, ENV101), or a cause
    (fragmentation)."""
    from oomph.cli.codes import find_rules
    from oomph.cli.terminal import width

    rules = find_rules(words)
    if output_format == "json":
        emit(as_json(rules))
    elif output_format == "markdown":
        emit("\n".join(as_markdown(rule) for rule in rules))
    else:
        emit("\n".join(_text(rule, width()) for rule in rules))


def as_json(rules: Sequence[Documented]) -> str:
    """A list of objects with code, cause, name and the text of every section."""
    import json

    keys = ("code", "cause", "name", *SECTIONS.values())
    return json.dumps(
        [{key: getattr(rule, key) for key in keys} for rule in rules], indent=2, ensure_ascii=False
    )


def as_markdown(rule: Documented) -> str:
    """The rule's page, as in docs/rules."""
    parts = [f"# {rule.code}: {rule.name}", "", f"Cause: `{rule.cause}`", ""]
    for heading, attribute in SECTIONS.items():
        parts += [f"## {heading}", "", getattr(rule, attribute).strip(), ""]
    return "\n".join(parts)


def _text(rule: Documented, columns: int) -> str:
    import textwrap

    parts = [f"{rule.code}  {rule.name}", f"cause: {rule.cause}", ""]
    for heading, attribute in SECTIONS.items():
        parts.append(heading)
        for paragraph in getattr(rule, attribute).strip().splitlines():
            indent = "  "
            parts.append(
                textwrap.fill(
                    paragraph,
                    width=columns,
                    initial_indent=indent,
                    subsequent_indent=indent,
                    break_long_words=False,
                    break_on_hyphens=False,
                )
            )
        parts.append("")
    return "\n".join(parts)
