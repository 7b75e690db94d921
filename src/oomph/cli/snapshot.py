"""`oomph snapshot FILE...`: what a memory snapshot says about a request that failed and about what was alive."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from oomph.cli.options import colour_option, fan_out_options, quiet_option, redact_option, rule_options


@dataclass(frozen=True)
class Request:
    """The command line of `oomph snapshot`, as click read it; field names are the options'."""

    files: tuple[str, ...]
    output_format: str | None
    output: str | None
    device: int | None
    at: str | None
    what_if: tuple[str, ...]
    capacity: str | None
    export: tuple[str, ...]
    window: str | None
    compare: bool | None
    show_all: bool
    redact: bool
    select: tuple[str, ...]
    ignore: tuple[str, ...]
    engine: str | None
    jobs: int | None
    engine_options: tuple[str, ...]
    quiet: bool
    verbose: bool
    colour: str
    exit_zero: bool

    @property
    def target(self) -> Path | None:
        """The file of -o; None for standard output."""
        return None if self.output in (None, "-") else Path(str(self.output))


#: What the shell offers for --at and --what-if.
_MOMENTS = ("oom", "retry", "peak-allocated", "peak-reserved", "start", "end")
_SETTINGS = (
    "all",
    "empty_cache",
    "defaults",
    "capacity:",
    "expandable_segments:True",
    "max_split_size_mb:",
    "garbage_collection_threshold:",
    "roundup_power2_divisions:",
)


def _complete_words(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001 - click's
    words = _MOMENTS if param.name == "at" else _SETTINGS
    return [word for word in words if word.startswith(incomplete)]


@click.command(name="snapshot", short_help="What a memory snapshot says.")
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path())
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
    "--device",
    metavar="N",
    type=click.IntRange(min=0),
    help="Show GPU N.  [default: the one whose request failed, else the fullest]",
)
@click.option(
    "--at",
    metavar="MOMENT",
    shell_complete=_complete_words,
    help="Show this moment: oom, retry, peak-allocated, peak-reserved, start, end, the number of an event, or seconds "
    "since the first one (12.5s).  [default: the request that failed, else the peak of what was allocated]",
)
@click.option(
    "--what-if",
    metavar="SETTING",
    multiple=True,
    shell_complete=_complete_words,
    help="Play the same requests again under SETTING: allocator settings as PyTorch writes them "
    "(max_split_size_mb:128), empty_cache (between phases), defaults, capacity:40GiB, or all for those worth trying.",
)
@click.option(
    "--capacity",
    metavar="SIZE",
    help="What PyTorch could have in all (78GiB), where the snapshot does not tell it.",
)
@click.option(
    "--export",
    metavar="FILE",
    multiple=True,
    type=click.Path(),
    help="Also write FILE, by its ending: .speedscope.json (what was alive), .csv or .parquet (events), .pickle (a "
    "smaller snapshot that PyTorch's own viewer opens).",
)
@click.option(
    "--window",
    metavar="FROM:TO",
    help="The part of the trace that --export writes: numbers of events, or seconds (1s:2.5s).",
)
@click.option(
    "--compare/--no-compare",
    default=None,
    help="Say what differs between several snapshots, or between the devices of one.  [default: with more than one "
    "snapshot]",
)
@click.option(
    "--all", "show_all", is_flag=True, help="List every stack, free list and retry; with -v each stack whole."
)
@redact_option
@rule_options
@fan_out_options
@quiet_option
@click.option(
    "-v",
    "--verbose",
    is_flag=True,
    help="Show call stacks; say on stderr what was read; show the traceback of a bug.",
)
@colour_option
@click.option("--exit-zero", is_flag=True, help="Exit with 0 even when a request failed.")
@click.pass_context
def command(ctx: click.Context, /, **options: object) -> None:
    """Say why the request in a memory snapshot failed, what was alive, and what other settings would have done.

    FILE is what torch.cuda.memory._dump_snapshot wrote, plain or packed with gzip or zstd. No code in it is run.
    Several files (two runs, or the ranks of one job) are compared.

    Exit codes: 0 no request failed (or the job went on), 1 a request failed, 2 nothing could be read, or the command
    line is wrong, 130 interrupted with Ctrl-C.
    """
    request = Request(**options)  # type: ignore[arg-type] # click has checked the types
    ctx.find_root().meta["oomph.verbose"] = request.verbose
    if request.redact:
        outputs = (request.output,) if request.output else ()
        ctx.find_root().meta["oomph.private"] = (*request.files, *outputs, *request.export)
    from oomph.cli.snapshot_run import run

    ctx.exit(run(request))
