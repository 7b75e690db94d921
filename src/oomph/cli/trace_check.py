"""What `oomph trace` refuses before anything runs: a trace takes a while, a wrong option should not."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from oomph.cli.output import check_target
from oomph.cli.snapshot_check import FORMATS, capacity_of, check_apart, check_setting
from oomph.errors import UsageError

if TYPE_CHECKING:
    from oomph.cli.trace import Request

__all__ = ["FORMATS", "check", "ranks_of", "steps_of"]

#: Words that stand for more than one rank.
_SEVERAL = ("all", "distinct")
#: Processes that are traced one after the other, at most.
_MOST_RANKS = 64


def check(request: Request, output_format: str) -> None:
    """Raises UsageError for options that make no sense, or not together."""
    if not request.target:
        raise UsageError(
            "Nothing to trace: write the training command after --, as in: oomph trace -- train.py"
        )
    capacity_of(request.capacity)
    steps_of(request)
    for setting in request.what_if:
        check_setting(setting)
    _check_files(request)
    many = request.rank in _SEVERAL
    if request.stages is not None and request.rank != "distinct":
        raise UsageError("--stages says which ranks --rank distinct takes; without it, it means nothing")
    if many and output_format == "html":
        raise UsageError("--format html shows one process; name one with --rank")
    if many and request.export:
        raise UsageError("--export takes one process; name one with --rank")
    if many and request.largest is not None:
        raise UsageError("--largest looks at one process; name one with --rank")
    if not many and not (request.rank.isascii() and request.rank.isdigit() and len(request.rank) < 8):
        raise UsageError(f"--rank {request.rank[:60]!r}: give a number, all, or distinct")
    if request.largest is not None:
        if request.gpu is None and request.capacity is None:
            raise UsageError("--largest needs to know what fits: give --gpu or --capacity")
        if any(setting.partition("=")[0] == request.largest for setting in request.settings):
            raise UsageError(
                f"--largest {request.largest} and --set {request.largest}=... contradict each other"
            )


def _check_files(request: Request) -> None:
    from oomph.report.exports import check_export

    outputs = [name for name in (request.save, *request.export) if name]
    if request.output_path is not None:
        check_target(request.output_path)
        outputs.append(str(request.output_path))
    if request.save is not None:
        check_target(Path(request.save), option="--save")
    for path in request.export:
        check_export(path)
    check_apart(outputs)


def steps_of(request: Request) -> int | None:
    """The number of --steps; None for all. Raises UsageError for anything else."""
    word = request.steps.strip()
    if word == "all":
        return None
    if not (word.isascii() and word.isdigit() and len(word) < 10 and int(word) > 0):
        raise UsageError(f"--steps {word[:60]!r}: give a number above 0, or all")
    return int(word)


def ranks_of(request: Request, world: int) -> list[int]:
    """The ranks to trace. Raises UsageError for one that there is not."""
    if request.rank == "distinct":
        from oomph.tracing.ranks.distinct import distinct_ranks

        return list(distinct_ranks(world, request.stages or 1))
    if request.rank == "all":
        if world > _MOST_RANKS:
            raise UsageError(
                f"--rank all: {world:,} processes would take too long; take --rank distinct, or name one"
            )
        return list(range(world))
    rank = int(request.rank)
    if rank >= world:
        raise UsageError(
            f"--rank {rank}: there are {world} processes, 0 to {world - 1} (--world says how many)"
        )
    return [rank]
