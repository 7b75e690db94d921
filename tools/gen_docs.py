"""Writes what is generated from the code: the pages of the rules, the command reference, and outputs in documents.

    python tools/gen_docs.py            write
    python tools/gen_docs.py --check    write nothing; exit 1 and name each file that is not up to date

A document shows a command's real output between two comments, the first of which names the command:

    <!-- output of: oomph explain examples/ddp-backward.log -->
    <!-- end of output -->

With `, up to "Then" -->` the output ends before the line that reads so, and "[...]" says that there is more.
"""

from __future__ import annotations

import inspect
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import click

from oomph.cli.codes import Documented, load_all
from oomph.cli.main import COMMANDS, cli
from oomph.cli.rule import as_markdown

ROOT = Path(__file__).resolve().parent.parent
NOTICE = "<!-- Written by tools/gen_docs.py from {source}. Edits here are lost. -->\n"

_OUTPUT = re.compile(
    r"""(?P<begin><!-- output of: oomph (?P<arguments>[^\n"]*?)(?:, up to "(?P<end_line>[^"\n]+)")? -->\n)"""
    r"""(?:(?!<!--).)*(?P<end><!-- end of output -->)""",
    re.DOTALL,
)


def generated() -> dict[Path, str]:
    """Every file that this tool writes, with its content."""
    rules = load_all()
    files = {ROOT / "docs" / "rules" / f"{rule.code}.md": rule_page(rule) for rule in rules}
    files[ROOT / "docs" / "rules" / "index.md"] = rule_index(rules)
    files[ROOT / "docs" / "command-line.md"] = command_reference()
    for document in (ROOT / "README.md", ROOT / "docs" / "index.md"):
        files[document] = with_outputs(document.read_text(encoding="utf-8"))
    return files


def rule_page(rule: Documented) -> str:
    """`oomph rule CODE --format markdown`, with a notice that names the rule's file."""
    module = type(rule).__module__.replace(".", "/")
    return NOTICE.format(source=f"src/{module}.py") + "\n" + as_markdown(rule)


def rule_index(rules: tuple[Documented, ...]) -> str:
    """A table of all rules with links to their pages."""
    rows = [f"| [{rule.code}]({rule.code}.md) | `{rule.cause}` | {rule.name} |" for rule in rules]
    head = [NOTICE.format(source="src/oomph/diagnose"), "# Rules and checks", ""]
    about = (
        "OOM are the rules of `oomph explain`, ENV and SCR the checks of `oomph doctor`: of machines, and of scripts. "
        "A code is stable: it is never given to another. `oomph rule CODE` prints a page in the terminal.\n"
    )
    return "\n".join([*head, about, "| Code | Cause | Name |", "|---|---|---|", *rows, ""])


def command_reference() -> str:
    """Every command with its help, arguments and options, independent of click's own layout."""
    parts = [NOTICE.format(source="src/oomph/cli"), "# Command line", "", paragraphs(cli.help)]
    context = click.Context(cli, info_name="oomph")
    for name in COMMANDS:
        command = cli.get_command(context, name)
        assert command is not None
        parts += command_section(command, name, context, "##")
    return "\n".join(parts).rstrip("\n") + "\n"


def command_section(command: click.Command, name: str, parent: click.Context, heading: str) -> list[str]:
    """One command's help and options, and below it the commands of a group."""
    context = click.Context(command, info_name=name, parent=parent)
    usage = " ".join(command.collect_usage_pieces(context))
    path = context.command_path
    parts = [f"{heading} {path}", "", f"    {path} {usage}", "", paragraphs(command.help)]
    rows = [option_row(option) for option in command.params if isinstance(option, click.Option)]
    if rows:
        parts += ["| Option | Meaning |", "|---|---|", *rows, ""]
    if isinstance(command, click.Group):
        for each in command.list_commands(context):
            below = command.get_command(context, each)
            assert below is not None
            parts += command_section(below, each, context, f"{heading}#")
    return parts


def paragraphs(text: str | None) -> str:
    """A command's help: paragraphs joined to lines, blocks that click keeps as they are (\\b) indented."""
    blocks = []
    for block in inspect.cleandoc(text or "").split("\n\n"):
        if block.startswith("\b\n"):
            blocks.append("\n".join("    " + line for line in block.splitlines()[1:]))
        else:
            blocks.append(" ".join(block.split()))
    return "\n\n".join(blocks) + "\n"


def option_row(option: click.Option) -> str:
    """One row of a command's table."""
    if isinstance(option.type, click.Choice):
        value = " " + "\\|".join(str(choice) for choice in option.type.choices)
    else:
        value = "" if option.is_flag else f" {option.metavar}"
    names = ", ".join((*option.opts, *option.secondary_opts))
    return f"| `{names}{value}` | {option.help} |"


def with_outputs(text: str) -> str:
    """The document with the output of each command that it names, as the command prints it to a pipe of 80 columns."""

    def fill(match: re.Match[str]) -> str:
        output = output_of(shlex.split(match["arguments"]))
        if match["end_line"]:
            shown, found, _ = output.partition(f"\n{match['end_line']}\n")
            if not found:
                raise RuntimeError(f"oomph {match['arguments']} prints no line {match['end_line']!r}")
            output = shown + "\n[...]\n"
        return f"{match['begin']}```text\n$ oomph {match['arguments']}\n{output}```\n{match['end']}"

    return _OUTPUT.sub(fill, text)


def output_of(arguments: list[str]) -> str:
    """Standard output of `oomph ARGUMENTS`, run from the root of the checkout. Raises RuntimeError on exit code 2."""
    environment = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "FORCE_COLOR")}
    environment |= {"COLUMNS": "80", "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run(
        [sys.executable, "-m", "oomph", *arguments],
        check=False,
        capture_output=True,
        cwd=ROOT,
        encoding="utf-8",
        env=environment,
    )
    if done.returncode not in (0, 1):
        raise RuntimeError(f"oomph {shlex.join(arguments)} failed: {done.stderr}")
    return "".join(line.rstrip() + "\n" for line in done.stdout.splitlines())


def stale_pages(files: dict[Path, str]) -> list[Path]:
    """Pages of rules that do not exist (any more)."""
    return [path for path in sorted((ROOT / "docs" / "rules").glob("*.md")) if path not in files]


def main() -> int:
    """Writes or checks the files; returns the exit code."""
    check = sys.argv[1:] == ["--check"]
    if sys.argv[1:] and not check:
        print(__doc__, file=sys.stderr)
        return 2
    files = generated()
    changed = [
        path for path, text in files.items() if not path.exists() or path.read_text(encoding="utf-8") != text
    ]
    stale = stale_pages(files)
    for path in (*changed, *stale):
        print(
            f"{path.relative_to(ROOT)}: {'out of date' if check else 'written' if path in files else 'removed'}"
        )
    if check:
        return 1 if changed or stale else 0
    for path in changed:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(files[path], encoding="utf-8", newline="\n")
    for path in stale:
        path.unlink()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
