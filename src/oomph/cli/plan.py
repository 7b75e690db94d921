"""`oomph plan [MODEL|FILE]...`: what a training job will need on a GPU, before there is one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path

import click

from oomph.cli.options import colour_option, quiet_option
from oomph.cli.plan_fit import fit_options
from oomph.cli.plan_options import Optional, job_options


@dataclass(frozen=True)
class Request:
    """The command line of `oomph plan`, as click read it; field names are the options'. `more` are those of parts that
    the command has beside the prediction itself, by name."""

    inputs: tuple[str, ...]
    gpu: str | None
    machine: str | None
    gpus: str | None
    per_node: int | None
    free: str | None
    capacity: str | None
    ddp: bool
    fsdp: str | None
    fsdp1: str | None
    zero: str | None
    tensor: int | None
    context: int | None
    pipeline: int | None
    expert: int | None
    sequence_parallel: bool
    offload: tuple[str, ...]
    batch: int | None
    seq: int | None
    accumulation: int | None
    method: str | None
    lora: int | None
    lora_targets: str | None
    dora: bool
    qlora: bool
    quantization: str | None
    precision: str | None
    optimizer: str | None
    checkpointing: str | None
    attention: str | None
    loss: str | None
    compiled: bool
    framework: tuple[str, ...]
    torch: str | None
    eval_batch: int | None
    generate: int | None
    alloc_conf: str | None
    settings: tuple[str, ...]
    network: bool
    explain: bool
    rank: str | None
    replay: bool
    output_format: str | None
    output: str | None
    save_job: str | None
    quiet: bool
    verbose: bool
    colour: str
    exit_zero: bool
    fit: bool = False
    objective: str | None = None
    headroom: str | None = None
    allow: tuple[str, ...] = ()
    maximum: str | None = None
    more: Mapping[str, object] = field(default_factory=dict)

    @property
    def output_path(self) -> Path | None:
        """The file of -o; None for standard output."""
        return None if self.output in (None, "-") else Path(str(self.output))


@click.command(name="plan", cls=Optional, short_help="What a job will need, before there is a GPU.")
@click.argument("inputs", metavar="[MODEL|FILE]...", nargs=-1)
@job_options
@fit_options
@click.option("--explain", is_flag=True, help="Every term of every phase, with the page that explains it.")
@click.option(
    "--rank",
    metavar="R",
    help="Show this rank.  [default: the one that needs the most]",
)
@click.option(
    "--no-replay",
    "replay",
    is_flag=True,
    flag_value=False,
    default=True,
    help="Add up what is allocated, and leave out what the allocator reserves on top.",
)
@click.option(
    "--format",
    "output_format",
    type=click.Choice(["text", "json", "markdown", "html"]),
    help="How to print the answer.  [default: text]",
)
@click.option(
    "-o", "--output", metavar="FILE", type=click.Path(), help="Write to FILE instead of standard output."
)
@click.option(
    "--save-job",
    metavar="FILE",
    type=click.Path(),
    help="Write the job as it was understood to FILE (.toml), which oomph plan reads.",
)
@click.option(
    "--against",
    metavar="RUN",
    help="Hold the prediction against a recorded run, phase by phase, and say what a difference comes from. Without a "
    "job, the one that the run recorded.",
)
@quiet_option
@click.option("-v", "--verbose", is_flag=True, help="Show the traceback of a bug.")
@colour_option
@click.option("--exit-zero", is_flag=True, help="Exit with 0 even when it does not fit.")
@click.pass_context
def command(ctx: click.Context, /, **options: object) -> None:
    """Predict what a training job will need: the peak of each phase on each kind of rank, whether it fits, and in which
    phase it breaks. No GPU, no PyTorch and no weights are needed.

    \b
    oomph plan Llama-3.1-8B --gpu a2-highgpu-8g --fsdp --batch 2 --seq 8192
    oomph plan Mistral-7B-v0.3 --gpu rtx-4090 --qlora --checkpointing
    oomph plan config.json args.yaml accelerate.yaml zero3.json --gpu h100x8
    oomph plan job.toml --set batch.micro=4 --explain
    oomph plan llama-3.1-8b --gpu a100-80gb --seq 8192 --fit --headroom 10%
    oomph plan job.toml --against last

    An input is a model's name, a folder with a config.json, a job file, or a configuration of the frameworks that
    people train with (docs/job-files.md); several are merged, and flags have the last word. What neither says is
    assumed, and the answer lists it.

    Exit codes: 0 it fits (or no capacity is known), 1 it does not fit, or may not, 2 the job makes no sense, or asks
    for something that cannot be predicted (oomph trace runs the real code), 130 interrupted with Ctrl-C.
    """
    own = {each.name for each in fields(Request)}
    more = {name: value for name, value in options.items() if name not in own}
    known = {name: value for name, value in options.items() if name in own}
    request = Request(**known, more=more)  # type: ignore[arg-type] # click has checked the types
    ctx.find_root().meta["oomph.verbose"] = request.verbose
    from oomph.cli import plan_against
    from oomph.cli.plan_run import run

    ctx.exit(plan_against.run(request) if plan_against.asked(request) else run(request))
