"""`oomph trace -- TARGET ARGS...`: what a training script would need on a GPU, from running it without one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from oomph.cli.options import colour_option, quiet_option, redact_option, rule_options


@dataclass(frozen=True)
class Request:
    """The command line of `oomph trace`, as click read it; field names are the options'."""

    target: tuple[str, ...]
    gpu: str | None
    capacity: str | None
    torch: str | None
    steps: str
    world: int | None
    rank: str
    stages: int | None
    settings: tuple[str, ...]
    largest: str | None
    alloc_conf: str | None
    output_format: str | None
    output: str | None
    save: str | None
    export: tuple[str, ...]
    device: int | None
    at: str | None
    what_if: tuple[str, ...]
    timeout: float | None
    max_operators: int | None
    stacks: bool
    show_all: bool
    redact: bool
    select: tuple[str, ...]
    ignore: tuple[str, ...]
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
    name="trace",
    short_help="What a training script would need, without a GPU.",
    context_settings={"allow_interspersed_args": False},
)
@click.argument("target", metavar="-- TARGET [ARGS]...", nargs=-1, type=click.UNPROCESSED)
@click.option(
    "--gpu",
    metavar="NAME",
    help="The GPU that it is to run on: a100-80gb, rtx-4090, or a cloud machine (p4d.24xlarge).  [default: none in "
    "particular; memory without end, kernels as on an A100 80GB]",
)
@click.option(
    "--capacity",
    metavar="SIZE",
    help="What PyTorch can have in all (78GiB), where that is not what the GPU leaves.",
)
@click.option(
    "--steps",
    metavar="N",
    default="3",
    show_default=True,
    help="Stop after N optimizer steps; all: run to the script's end.",
)
@click.option(
    "--torch",
    metavar="VERSION",
    help="The PyTorch that the answer is to speak for (2.6).  [default: the installed one]",
)
@click.option(
    "--set",
    "settings",
    metavar="KEY=VALUE",
    multiple=True,
    help="Change one of the script's own flags (per_device_train_batch_size=4); KEY alone is a switch.",
)
@click.option(
    "--largest",
    metavar="KEY",
    help="Look for the largest value of a flag of the script's (a batch size, a length) that fits, by tracing it "
    "again and again.",
)
@click.option(
    "--world",
    metavar="N",
    type=click.IntRange(min=1),
    help="Trace one of N processes.  [default: as many as torchrun or accelerate in TARGET would start]",
)
@click.option(
    "--rank",
    metavar="R",
    default="0",
    show_default=True,
    help="Which of them: a number; all, one after the other; or distinct, those whose memory can differ: of ranks "
    "that share one model the first and the last.",
)
@click.option(
    "--stages",
    metavar="N",
    type=click.IntRange(min=1),
    help="With --rank distinct: the pipeline stages, each of which has ranks of its own.  [default: 1]",
)
@click.option(
    "--alloc-conf",
    metavar="SETTINGS",
    help="Allocator settings, as in PYTORCH_CUDA_ALLOC_CONF.  [default: the environment's]",
)
@click.option(
    "--format",
    "output_format",
    type=click.Choice(["text", "json", "markdown", "html"]),
    help="How to print the answer; html is one page that needs no network.  [default: text]",
)
@click.option(
    "-o", "--output", metavar="FILE", type=click.Path(), help="Write to FILE instead of standard output."
)
@click.option(
    "--save",
    metavar="FILE",
    type=click.Path(),
    help="Keep the trace as a memory snapshot, for oomph snapshot and for PyTorch's own viewer.",
)
@click.option(
    "--export",
    metavar="FILE",
    multiple=True,
    type=click.Path(),
    help="Also write FILE, by its ending: .speedscope.json (what was alive), .csv or .parquet (events), .pickle (a "
    "part of the trace as a snapshot).",
)
@click.option("--device", metavar="N", type=click.IntRange(min=0), help="Show GPU N.  [default: the fullest]")
@click.option(
    "--at",
    metavar="MOMENT",
    help="Show this moment: oom, retry, peak-allocated, peak-reserved, start, end, or the number of an event.  "
    "[default: the request that failed, else the peak of what was allocated]",
)
@click.option(
    "--what-if",
    metavar="SETTING",
    multiple=True,
    help="Play the same requests again under SETTING, as oomph snapshot does: allocator settings, empty_cache, "
    "capacity:40GiB, or all.",
)
@click.option(
    "--timeout",
    metavar="SECONDS",
    type=click.FloatRange(min=0, min_open=True),
    help="Stop after so long, and answer for what ran.",
)
@click.option(
    "--max-operators",
    metavar="N",
    type=click.IntRange(min=1),
    help="Stop after N operators on the device: for loops that would not end.",
)
@click.option("--no-stacks", "stacks", is_flag=True, flag_value=False, default=True, help="Record no stacks.")
@click.option("--all", "show_all", is_flag=True, help="List every stack, module, operator and note.")
@redact_option
@rule_options
@quiet_option
@click.option(
    "-v",
    "--verbose",
    is_flag=True,
    help="Show call stacks; say on stderr what is traced; show the traceback of a bug.",
)
@colour_option
@click.option("--exit-zero", is_flag=True, help="Exit with 0 even when it does not fit.")
@click.pass_context
def command(ctx: click.Context, /, **options: object) -> None:
    """Run a training script without a GPU, and say what it would need on one: whether it fits, in which phase memory is
    highest, which lines hold it.

    \b
    oomph trace --gpu a100-40gb -- train.py --batch 8
    oomph trace --gpu 4090 --set batch=16 -- python -m my.training
    oomph trace --gpu h100 --rank all -- torchrun --nproc-per-node 8 train.py

    TARGET is a script, a command line that starts one (python, torchrun, accelerate), or module:function. It runs as it
    is, unchanged, with the same Python as oomph; its tensors on the GPU have a size and no content. Checkpoints are not
    written, trackers not called. What the script prints goes to standard error.

    Exit codes: 0 it fits (or no capacity is known), 1 memory runs out or may (or will, at the rate at which it grows),
    2 the script ended with an exception of its own, or could not be traced, or the command line is wrong, 130
    interrupted with Ctrl-C.
    """
    request = Request(**options)  # type: ignore[arg-type] # click has checked the types
    ctx.find_root().meta["oomph.verbose"] = request.verbose
    if request.redact:
        outputs = [name for name in (request.output, request.save) if name]
        ctx.find_root().meta["oomph.private"] = (*request.target, *outputs, *request.export)
    from oomph.cli.trace_run import run

    ctx.exit(run(request))
