"""`oomph doctor`: is the machine the cause, or a script, before or after a failure."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from oomph.cli.options import check_options, colour_option, quiet_option, redact_option
from oomph.cli.variadic import TakesSeveral


@dataclass(frozen=True)
class Request:
    """The command line of `oomph doctor`, as click read it; field names are the options'."""

    paths: tuple[str, ...]
    given: tuple[str, ...]
    scripts: tuple[str, ...]
    here: bool
    fix: bool
    diff: bool
    job: tuple[str, ...]
    python: str | None
    pid: int | None
    ask_cloud: bool
    output_format: str | None
    output: str | None
    redact: bool
    show_all: bool
    strict: bool
    select: tuple[str, ...]
    ignore: tuple[str, ...]
    quiet: bool
    verbose: bool
    colour: str
    exit_zero: bool

    @property
    def files(self) -> tuple[str, ...]:
        """What is said of another machine: `--from` and plain paths are one."""
        return (*self.given, *self.paths)

    @property
    def output_path(self) -> Path | None:
        """The file of -o; None for standard output."""
        return None if self.output in (None, "-") else Path(str(self.output))


class _Doctor(TakesSeveral):
    several = ("--from", "--script", "--job")


@click.command(
    name="doctor", cls=_Doctor, short_help="Is the machine the cause: driver, CUDA, NCCL, neighbours."
)
@click.argument("paths", metavar="[PATH]...", nargs=-1, type=click.Path())
@click.option(
    "--from",
    "given",
    metavar="PATH...",
    multiple=True,
    type=click.Path(),
    help="Check another machine by what it says: outputs of nvidia-smi -q, collect_env, env, pip list, ip addr, dmesg, "
    "Dockerfiles, Slurm scripts, Kubernetes manifests, folders of such; - is standard input.",
)
@click.option(
    "--script",
    "scripts",
    metavar="FILE...",
    multiple=True,
    type=click.Path(),
    help="Look at Python files, notebooks and configurations for calls that cannot work or do not do what is believed. "
    "Nothing in them is run.",
)
@click.option(
    "--fix",
    is_flag=True,
    help="Make the changes in the scripts that are safe (the code did not work before, or computes the same after), "
    "and check what is left.",
)
@click.option(
    "--diff", is_flag=True, help="Show what --fix would change, as a unified diff, and change nothing."
)
@click.option("--here", is_flag=True, help="With --script: check this machine, too.")
@click.option(
    "--job",
    metavar="JOB...",
    multiple=True,
    help="What is to be trained, as oomph plan takes it (a model's name, a job file, a configuration), for the checks "
    "that need it: main memory at loading.",
)
@click.option(
    "--python",
    metavar="PATH",
    help="The interpreter whose PyTorch is looked at.  [default: the one that runs oomph]",
)
@click.option(
    "--pid",
    metavar="N",
    type=click.IntRange(min=1),
    help="A running process of the job: its variables and limits are checked, and what it has on a GPU is its own.",
)
@click.option(
    "--ask-cloud",
    is_flag=True,
    help="Ask the cloud's metadata server (169.254.169.254) for the machine's type, where no file tells it.",
)
@click.option(
    "--format",
    "output_format",
    type=click.Choice(["text", "json", "markdown", "sarif"]),
    help="How to print the answer.  [default: text]",
)
@click.option(
    "-o", "--output", metavar="FILE", type=click.Path(), help="Write to FILE instead of standard output."
)
@redact_option
@click.option(
    "--all", "show_all", is_flag=True, help="List what was found in order, too, and all that was read."
)
@click.option("--strict", is_flag=True, help="What could not be told counts as a finding.")
@check_options
@quiet_option
@click.option("-v", "--verbose", is_flag=True, help="Show the traceback of a bug.")
@colour_option
@click.option("--exit-zero", is_flag=True, help="Exit with 0 even when something was found.")
@click.pass_context
def command(ctx: click.Context, /, **options: object) -> None:
    """Check this machine, or what is said of another one, before or after a failure: driver against the installed
    PyTorch, GPUs and who is on them, NCCL and allocator variables, main memory and limits.

    \b
    oomph doctor
    oomph doctor --from nvidia-smi.txt env.txt job.slurm
    ssh node7 nvidia-smi -q | oomph doctor --from -
    oomph doctor --script train.py --diff

    PATH is the same as --from PATH. Without either this machine is asked; nothing on it is changed, and nothing is
    asked over a network. A check that had too little to go on says so, and what would tell. docs/doctor.md lists
    what to collect where oomph is not installed.

    Exit codes: 0 nothing wrong was found (notes are no findings), 1 an error or a warning was found, 2 nothing could be
    read, or the command line is wrong, 130 interrupted with Ctrl-C.
    """
    request = Request(**options)  # type: ignore[arg-type] # click has checked the types
    ctx.find_root().meta["oomph.verbose"] = request.verbose
    if request.redact:
        outputs = [request.output] if request.output else []
        ctx.find_root().meta["oomph.private"] = (*request.files, *request.scripts, *request.job, *outputs)
    from oomph.cli.doctor_run import run

    ctx.exit(run(request))
