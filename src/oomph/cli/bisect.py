"""`oomph bisect -- CMD`: one variable at a time, until the cause is alone."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from oomph.cli.options import colour_option, quiet_option


@dataclass(frozen=True)
class Request:
    """The command line of `oomph bisect`, as click read it; field names are the options'."""

    command: tuple[str, ...]
    params: tuple[str, ...]
    environment: tuple[str, ...]
    until: str | None
    headroom: str
    jobs: tuple[str, ...]
    engine: str
    engine_options: tuple[str, ...]
    gpus: int
    gpu: str | None
    capacity: str | None
    world: int | None
    timeout: str
    memory: str | None
    disk: str | None
    free_disk: str
    name: str | None
    folder: str | None
    fresh: bool
    output_format: str | None
    output: str | None
    quiet: bool
    verbose: bool
    colour: str
    exit_zero: bool

    @property
    def output_path(self) -> Path | None:
        """The file of -o; None for standard output."""
        return None if self.output in (None, "-") else Path(str(self.output))


#: Options end at the first word of the command, which has options of its own.
@click.command(
    name="bisect",
    short_help="One variable at a time, until the cause is alone.",
    context_settings={"allow_interspersed_args": False},
)
@click.argument("command", metavar="-- CMD [ARGS]...", nargs=-1, type=click.UNPROCESSED)
@click.option(
    "--param",
    "params",
    metavar="NAME=VALUES",
    multiple=True,
    help="What may be changed, from the job's own value down: batch=8:1 ({batch} in CMD), seq=8192:512, opt=adamw|sgd, "
    "--flag=8:1 (an argument of CMD), env:NAME=a|b, config.yaml:key=8:1. Repeat it; the order is that of the trials.",
)
@click.option(
    "--env",
    "environment",
    metavar="NAME=VALUE",
    multiple=True,
    help="A variable for CMD's environment; {placeholders} are replaced in the value.",
)
@click.option(
    "--until",
    metavar="PHASE",
    help="Stop a trial when this has passed on every rank: forward, backward, optimizer (of the second step), eval, "
    "generate, save, step:N, end.  [default: the phase in which the first trial fails, one step later]",
)
@click.option(
    "--headroom",
    metavar="N%",
    default="10%",
    show_default=True,
    help="How much of the card the recommended setting leaves free.",
)
@click.option(
    "--job",
    "jobs",
    metavar="JOB",
    multiple=True,
    help="What is trained, as oomph plan takes it: the prediction says which values to try first.",
)
@click.option(
    "--engine",
    type=click.Choice(["local", "trace", "slurm", "ray"]),
    default="local",
    show_default=True,
    help="Where trials run; trace: on fake tensors, without a GPU (give --gpu or --capacity).",
)
@click.option(
    "--engine-option",
    "engine_options",
    metavar="KEY=VALUE",
    multiple=True,
    help="An option of the engine (partition=gpu for slurm): docs/bisect.md.",
)
@click.option(
    "--gpus", metavar="N", type=click.IntRange(min=0), default=0, help="GPUs for each trial (slurm, ray)."
)
@click.option("--gpu", metavar="NAME", help="With --engine trace: the GPU, as oomph trace takes it.")
@click.option("--capacity", metavar="SIZE", help="With --engine trace: what PyTorch can have in all.")
@click.option("--world", metavar="N", type=click.IntRange(min=1), help="With --engine trace: processes.")
@click.option(
    "--timeout",
    metavar="TIME",
    default="30min",
    show_default=True,
    help="How long a trial may take; a longer one hangs. 0: as long as it likes.",
)
@click.option("--memory", metavar="SIZE", help="Main memory that all processes of a trial may hold.")
@click.option("--disk", metavar="SIZE", help="What a trial may write into its folder.")
@click.option(
    "--free-disk",
    metavar="SIZE",
    default="1GiB",
    show_default=True,
    help="A trial ends when its disk has less left.",
)
@click.option("--name", metavar="NAME", help="What the search is called.  [default: from the command]")
@click.option(
    "--folder", metavar="DIR", type=click.Path(), help="Where searches are kept.  [default: oomph-bisect]"
)
@click.option("--fresh", is_flag=True, help="Start over: forget the trials of an earlier search.")
@click.option(
    "--format",
    "output_format",
    type=click.Choice(["text", "json"]),
    help="How to print the answer.  [default: text]",
)
@click.option(
    "-o", "--output", metavar="FILE", type=click.Path(), help="Write to FILE instead of standard output."
)
@quiet_option
@click.option("-v", "--verbose", is_flag=True, help="Show the traceback of a bug.")
@colour_option
@click.option("--exit-zero", is_flag=True, help="Exit with 0 even when the cause is not isolated.")
@click.pass_context
def command(ctx: click.Context, /, **options: object) -> None:
    """Find out which variable a failing job runs out of memory for, and the largest value that fits, by short runs that
    change one thing at a time.

    \b
    oomph bisect --param batch=8:1 --param seq=8192:512 -- \\
        python train.py --batch {batch} --seq {seq}
    oomph bisect --param --per_device_train_batch_size=8:1 -- \\
        torchrun --nproc-per-node 8 train.py
    oomph bisect --engine trace --gpu a100-40gb --param batch=8:1 -- \\
        train.py --batch {batch}

    CMD fails as given, or there is nothing to do. Then the first variable goes to its least; if that fits, its limit
    is found, else it stays there and the next one goes down. Trials are processes of their own, recorded, and stopped
    as soon as the phase in question has passed. A trial that ends otherwise (a crash, NCCL, a full disk) says nothing
    about memory and is not counted. The same command goes on where an interrupted one stopped. docs/bisect.md says
    more.

    Exit codes: 0 the cause is isolated, or CMD does not fail, 1 it could not be isolated, 2 the search could not be
    done, or the command line is wrong, 130 interrupted with Ctrl-C.
    """
    request = Request(**options)  # type: ignore[arg-type] # click has checked the types
    ctx.find_root().meta["oomph.verbose"] = request.verbose
    if not request.command:
        raise click.UsageError(
            "Name the command that fails: oomph bisect --param batch=8:1 -- python train.py --batch {batch}",
            ctx,
        )
    from oomph.cli.bisect_run import run

    ctx.exit(run(request))
