"""The `oomph` command: the group, its lazily loaded commands, and what happens when something goes wrong.

Exit codes: 0 no failure for lack of memory, 1 one was found, 2 the command could not do its work, 130 interrupted.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

import click

from oomph import __version__
from oomph.cli.output import one_line, silence_broken_pipe, tolerate_any_text
from oomph.errors import OomphError

#: Command name -> module with a `command`. In the order of `oomph --help`. A command's module imports what it needs
#: inside its function: `oomph --help` loads all of these and must stay quick.
COMMANDS = {
    "explain": "oomph.cli.explain",
    "snapshot": "oomph.cli.snapshot",
    "plan": "oomph.cli.plan",
    "trace": "oomph.cli.trace",
    "doctor": "oomph.cli.doctor",
    "record": "oomph.cli.record",
    "verify": "oomph.cli.verify",
    "runs": "oomph.cli.runs",
    "bisect": "oomph.cli.bisect",
    "repro": "oomph.cli.repro",
    "rule": "oomph.cli.rule",
    "rules": "oomph.cli.rules",
    "completion": "oomph.cli.completion",
}

#: Key in the root context's `meta` under which a command says whether `-v` was given.
VERBOSE = "oomph.verbose"
#: The same for `--redact`: the names of files that no message may have.
PRIVATE = "oomph.private"


class LazyGroup(click.Group):
    """A group that imports a command's module when the command is asked for, and that turns errors into sentences."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - as above
        module = COMMANDS.get(cmd_name)
        if module is None:
            return None
        command = importlib.import_module(module).command
        assert isinstance(command, click.Command)
        return command

    def invoke(self, ctx: click.Context) -> Any:
        """Runs the command; every way to fail becomes one sentence on stderr and an exit code."""
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except OomphError as error:
            say(_without_names(ctx, str(error)))
            ctx.exit(error.exit_code)
        except KeyboardInterrupt:
            say("interrupted")
            ctx.exit(130)
        except BrokenPipeError:
            silence_broken_pipe()
            ctx.exit(2)
        except OSError as error:
            what = f"{error.filename}: " if error.filename else ""
            say(_without_names(ctx, f"{what}{error.strerror or error}"))
            ctx.exit(2)
        except Exception as error:  # noqa: BLE001 - the last resort: a sentence instead of a traceback
            _report_bug(error, ctx.meta.get(VERBOSE))
            ctx.exit(2)


def say(sentence: str) -> None:
    """One sentence to the user on stderr."""
    click.echo(f"oomph: {one_line(sentence)}", err=True)


def _without_names(ctx: click.Context, sentence: str) -> str:
    names = ctx.meta.get(PRIVATE)
    if names is None:
        return sentence
    from oomph.report.redact import redact_names

    return redact_names(sentence, names)


def _report_bug(error: Exception, verbose: bool | None) -> None:
    """Asks for a bug report. `verbose` is None for a command that has no `-v`."""
    import traceback

    if verbose:
        click.echo("".join(traceback.format_exception(error)), err=True, nl=False)
    frames = traceback.extract_tb(error.__traceback__)
    where = f" at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
    hint = "; run again with -v for the whole traceback" if verbose is False else ""
    say(f"internal error, {type(error).__name__}{where}. This is a bug in oomph: please report it{hint}")


@click.group(
    name="oomph",
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, message="%(prog)s %(version)s")
def cli() -> None:
    """Why a PyTorch job ran out of GPU memory, and which single change comes first.

    \b
    oomph explain train.log          the cause and the first change
    oomph explain slurm-*.out logs/  several files and folders of one job
    kubectl logs pod | oomph explain
    oomph snapshot oom.pickle        the same from a memory snapshot: what was alive, what if
    oomph plan llama-3.1-8b          what a job will need, before there is a script or a GPU
    oomph trace -- train.py          what a script would need, without a GPU
    oomph doctor                     is the machine the cause: driver, CUDA, NCCL, neighbours
    oomph bisect --param batch=8:1   which variable is the cause: one change at a time
    oomph record -- torchrun ...     run a job, record where its memory goes, explain when it fails

    Exit codes: 0 no failure for lack of memory, 1 one was found, 2 the command could not do its work, 130 interrupted
    with Ctrl-C.
    """


def main() -> None:
    """Entry point of the `oomph` script and of `python -m oomph`."""
    tolerate_any_text(sys.stdout)
    cli.main(prog_name="oomph")
