"""`oomph repro SOURCE...`: the failing phase of a job as one script."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import click

from oomph.cli.options import quiet_option
from oomph.cli.plan_options import Optional, job_options


@dataclass(frozen=True)
class Request:
    """The command line of `oomph repro`, as click read it. `flags`: those that describe a job, as `oomph plan` has
    them, by their names."""

    sources: tuple[str, ...]
    job: tuple[str, ...]
    phase: str | None
    rank: int | None
    output: str | None
    force: bool
    quiet: bool
    flags: Mapping[str, object]

    @property
    def target(self) -> Path | None:
        """The file of -o; None for standard output."""
        return None if self.output in (None, "-") else Path(str(self.output))


@click.command(name="repro", cls=Optional, short_help="The failing phase of a job as one script.")
@click.argument("sources", metavar="SOURCE...", nargs=-1)
@click.option(
    "--job",
    metavar="FILE",
    multiple=True,
    help="What was trained, where SOURCE does not say it: a job file, a config.json, the trainer's files, or a model's "
    "name; several together.",
)
@click.option(
    "--phase",
    type=click.Choice(["load", "forward", "backward", "optimizer", "eval", "generate", "save", "all"]),
    help="The phase after which the script stops.  [default: the one that failed; all where none is known]",
)
@click.option(
    "--rank",
    metavar="R",
    type=click.IntRange(min=0),
    help="The failure of rank R of a log or a run of several.  [default: the first that failed]",
)
@click.option(
    "-o", "--output", metavar="FILE", type=click.Path(), help="Write to FILE instead of standard output."
)
@click.option("--force", is_flag=True, help="Overwrite FILE.")
@quiet_option
@click.option("-v", "--verbose", is_flag=True, help="Show the traceback of a bug.")
@job_options
@click.pass_context
def command(ctx: click.Context, /, **options: object) -> None:
    """Write one Python script that reproduces the failing phase of a job and nothing else: the model from its
    configuration with random weights, random data of the failing shapes, the same precision, sharing, optimizer and
    number of ranks. It needs no weights, no data set and no network, and it runs under python, torchrun, oomph trace
    and oomph bisect.

    \b
    oomph repro train.log -o repro.py
    oomph repro last-failed -o repro.py
    oomph repro train.log --job config.json --job args.yaml
    oomph repro llama-3.1-8b --fsdp --gpus 8 --batch 2 --seq 8192
    oomph repro trace.pickle --job job.toml --phase eval

    SOURCE is a log (any that oomph explain reads), a run of oomph record (a directory, or what oomph runs calls it), a
    job as oomph plan takes it, or a saved trace or snapshot with --job. Options that describe a job have the last word.
    What nobody says is assumed as oomph plan assumes it; it stands in the script and on standard error.

    Exit codes: 0 written, 2 not: a fact is missing, or the job has what no short script can have; each by name. 130
    interrupted with Ctrl-C.
    """
    own = {
        name: options.pop(name) for name in ("sources", "job", "phase", "rank", "output", "force", "quiet")
    }
    ctx.find_root().meta["oomph.verbose"] = options.pop("verbose")
    from oomph.cli.repro_run import run

    run(Request(**own, flags=options))  # type: ignore[arg-type] # click has checked the types
