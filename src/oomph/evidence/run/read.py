"""Reads a run directory. Whatever is missing, torn, unknown or hostile in it costs only itself."""

from __future__ import annotations

import contextlib
import os
import re
import socket
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import msgspec

from oomph.errors import InputError
from oomph.evidence.run.data import Outcome, RankData, RunData
from oomph.evidence.run.files import Files, files_of, host_file, looks_like_run
from oomph.evidence.run.first import first_failure
from oomph.evidence.run.model import (
    END,
    FINGERPRINT,
    GPUS,
    OOM,
    RANKS,
    RUN,
    VERSION,
    Fingerprint,
    GpuSample,
    Header,
    Now,
    Record,
    Run,
    RunEnd,
    rank_name,
)
from oomph.evidence.run.now import decode_now, now_name
from oomph.evidence.run.rank import Alive, RankReader
from oomph.evidence.run.records import Lines
from oomph.evidence.run.summary import Kept

T = TypeVar("T")

#: So many phases and so many steps are kept in all, of each rank at least the second number.
MOST_RECORDS, LEAST_RECORDS = 200_000, 200
MOST_SAMPLES = 20_000
#: run.json, end.json and fingerprints are small.
_MOST_JSON_BYTES = 16 << 20
_MOST_NOW_BYTES = 4_096
_MOST_RANKS = 100_000
_RANK_FILE = re.compile(r"rank-(\d{1,7})\.jsonl\Z", re.ASCII)
_RANK_JSON = re.compile(r"rank-(\d{1,7})\.json\Z", re.ASCII)
_RANK_FOLDER = re.compile(r"rank-(\d{1,7})\Z", re.ASCII)
_OUTPUT = re.compile(r"rank-\d{1,7}(-before|-last)?\.(out|err)\Z", re.ASCII)
_JOB_OUTPUT = re.compile(r"(job(?:-[\w.-]{1,100}?)??)(-before|-last)?\.(out|err)\Z", re.ASCII)
_OTHER_END = re.compile(r"end-([\w.-]{1,100})\.json\Z", re.ASCII)
#: A stream that was too long is kept in three parts: its beginning, and the end in two.
_PARTS = (None, "-before", "-last")


def is_run(path: str | os.PathLike[str] | Files) -> bool:
    """Whether `path` is a run directory. Never raises; reads no record."""
    try:
        if isinstance(path, (str, os.PathLike)) and not Path(path).is_dir():
            return False
        return looks_like_run(files_of(path))
    except (OSError, ValueError):
        return False


def read_run(path: str | os.PathLike[str] | Files, *, alive: Alive | None = None) -> RunData:
    """All that a run directory says, with memory that does not grow with the length of the run.

    `path` is a folder, or an object with `path`, `open`, `ls` and `size` as `Files` has them. `alive` says whether the
    process of a rank lives; without it this host is asked about its own processes. Raises InputError for what is no run
    directory.
    """
    files = files_of(path)
    if not looks_like_run(files):
        raise InputError(
            f"{files.path} is no run directory: it has neither run.json nor ranks/rank-00000.jsonl. "
            "`oomph record` makes one."
        )
    notes: list[str] = []
    run = _run(files, notes)
    end = _end(files, notes)
    over = _over(files, run) if end is not None else _not_over
    ranks = _ranks(files, over, alive or _lives, notes)
    if end is not None and end.exit_code == 0:
        ranks = {rank: _left_in_order(data) for rank, data in ranks.items()}
    world = _world_size(run, ranks)
    missing = tuple(rank for rank in range(min(world or 0, _MOST_RANKS)) if rank not in ranks)
    return RunData(
        path=files.path,
        files=files,
        run=run,
        ranks=ranks,
        world_size=world,
        missing=missing,
        end=end,
        outcome=_outcome(ranks, end, missing),
        first_failure=first_failure(ranks),
        gpus=_gpus(files, notes),
        fingerprints=_fingerprints(files, notes),
        outputs=_outputs(files),
        snapshots=_snapshots(files),
        notes=tuple(notes),
    )


def rank_records(run: RunData, rank: int) -> Iterator[Record]:
    """Every record of a rank, read again from its file: also those that `RankData` left out."""
    with run.files.open(f"{RANKS}/{rank_name(rank)}.jsonl") as file:
        yield from Lines[Record](file).records()


def host_samples(run: RunData, host: str) -> Iterator[GpuSample]:
    """Every sample of a host's GPUs, read again from its file."""
    with run.files.open(f"{GPUS}/{host}.jsonl") as file:
        yield from Lines[GpuSample](file).gpu_samples()


def _json(files: Files, name: str, kind: type[T], notes: list[str]) -> T | None:
    if files.size(name) is None:
        return None
    try:
        with files.open(name) as file:
            data = file.read(_MOST_JSON_BYTES + 1)
        if len(data) > _MOST_JSON_BYTES:
            notes.append(f"{name} is larger than any that oomph writes: not read")
            return None
        return msgspec.json.decode(data, type=kind)
    except OSError as error:
        notes.append(f"{name} cannot be read: {error.strerror or error}")
    except (ValueError, RecursionError, OverflowError):  # msgspec's errors are ValueErrors
        notes.append(f"{name} is damaged: not read")
    return None


def _run(files: Files, notes: list[str]) -> Run:
    run = _json(files, RUN, Run, notes)
    if run is None:
        if files.size(RUN) is None:
            notes.append(f"{RUN} is missing: when the run began and what was started is not known")
        return Run(VERSION, "", 0.0)
    if run.version > VERSION:
        notes.append(
            f"the run was recorded by a newer oomph ({run.oomph or 'version not given'}; records of version "
            f"{run.version}, known here is {VERSION}): what is unknown here is left out"
        )
    return run


def _end(files: Files, notes: list[str]) -> RunEnd | None:
    """How the command ended; of the commands of several hosts or ranks, one that went wrong speaks for all."""
    end = _json(files, END, RunEnd, notes)
    if end is None or end.exit_code != 0:
        return end
    for name in files.ls(""):
        other = _json(files, name, RunEnd, notes) if _OTHER_END.match(name) else None
        if other is not None and other.exit_code != 0:
            return other
    return end


def _not_over(header: Header) -> bool:  # noqa: ARG001 - one of two answers to the same question
    return False


def _over(files: Files, run: Run) -> Callable[[Header], bool]:
    """Whether the command that started a rank has ended: then a rank without a last record is gone. Only the commands
    of the rank's own host, or its own command where each rank has one, say that."""
    names = files.ls("")
    ended = {match[1] for name in names if (match := _OTHER_END.match(name)) is not None}
    for_all_ranks = any(_JOB_OUTPUT.match(name) for name in names)

    def over(header: Header) -> bool:
        if not run.host:
            return True
        if not for_all_ranks:
            return rank_name(header.rank) in ended
        return header.host == run.host or host_file(header.host) in ended

    return over


def _ranks(
    files: Files, over: Callable[[Header], bool], alive: Alive, notes: list[str]
) -> dict[int, RankData]:
    names: dict[int, str] = {}
    for name in files.ls(RANKS):
        match = _RANK_FILE.match(name)
        if match is not None:
            names.setdefault(int(match[1]), name)
    keep = max(LEAST_RECORDS, MOST_RECORDS // max(1, len(names)))

    def asked(header: Header) -> bool | None:
        answer = alive(header)
        return False if answer is None and over(header) else answer

    ranks: dict[int, RankData] = {}
    for rank in sorted(names):
        ranks[rank] = _rank(files, f"{RANKS}/{names[rank]}", rank, keep, asked, notes)
    return ranks


def _left_in_order(rank: RankData) -> RankData:
    """A rank without a last record, of a command that reported success: os._exit leaves none either."""
    if rank.outcome is not Outcome.KILLED:
        return rank
    why = "its records stop without an end, and its command reported success (exit code 0)"
    return replace(rank, outcome=Outcome.UNKNOWN, why=why, attempts=(*rank.attempts[:-1], Outcome.UNKNOWN))


def _rank(files: Files, name: str, rank: int, keep: int, alive: Alive, notes: list[str]) -> RankData:
    reader = RankReader(rank, keep)
    lines: Lines[Record] | None = None
    try:
        with files.open(name) as file:
            lines = Lines(file)
            reader.read(lines)
    except OSError as error:
        notes.append(f"{name} cannot be read: {error.strerror or error}")
    if lines is None:
        return reader.data(alive)
    data = reader.data(alive, now=_now(files, rank), damaged=lines.damaged, unknown=lines.unknown)
    if lines.error:
        notes.append(f"{name} was read in part: {lines.error}")
    if lines.damaged:
        notes.append(f"{name}: {lines.damaged:,} lines are no records and were passed over")
    if lines.unknown:
        notes.append(f"{name}: {lines.unknown:,} records of kinds that are not known here were passed over")
    if lines.torn:
        notes.append(f"{name}: its last record is not whole")
    if data.header is not None and data.header.rank != rank:
        notes.append(f"{name}: its records call it rank {data.header.rank}; the file's name is believed")
    return data


def _now(files: Files, rank: int) -> Now | None:
    try:
        with files.open(now_name(rank)) as file:
            return decode_now(file.read(_MOST_NOW_BYTES))
    except OSError:
        return None


def _lives(header: Header) -> bool | None:
    """Whether a process of this host lives; None for another host's."""
    if header.host != socket.gethostname() or header.pid <= 0:
        return None
    try:
        os.kill(header.pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return None
    return True


def _world_size(run: RunData | Run, ranks: dict[int, RankData]) -> int | None:
    """As the ranks state it, else as the run does."""
    said = [one.header.world_size for one in ranks.values() if one.header is not None]
    if said:
        return max(said)
    return run.world_size


def _outcome(ranks: dict[int, RankData], end: RunEnd | None, missing: Sequence[int]) -> Outcome:
    """Of the run as a whole: a failure of any rank; else the command's code; else what the ranks have in common, where
    all of them left records."""
    outcomes = {one.outcome for one in ranks.values()}
    for worst in (Outcome.OOM, Outcome.EXCEPTION, Outcome.KILLED, Outcome.INTERRUPTED):
        if worst in outcomes:
            return worst
    if end is not None and end.exit_code != 0:
        return Outcome.KILLED if end.signal is not None else Outcome.EXCEPTION
    if Outcome.RUNNING in outcomes:
        return Outcome.RUNNING
    if end is None and (missing or not outcomes):
        return Outcome.UNKNOWN
    if Outcome.UNKNOWN in outcomes:
        return Outcome.UNKNOWN
    return Outcome.COMPLETED


def _gpus(files: Files, notes: list[str]) -> dict[str, tuple[GpuSample, ...]]:
    found: dict[str, tuple[GpuSample, ...]] = {}
    for name in files.ls(GPUS):
        if not name.endswith(".jsonl"):
            continue
        kept: Kept[GpuSample] = Kept(MOST_SAMPLES)
        most: dict[int, int] = {}
        try:
            with files.open(f"{GPUS}/{name}") as file:
                for sample in Lines[GpuSample](file).gpu_samples():
                    kept.add(sample, remarkable=_new_peak(sample, most))
        except OSError as error:
            notes.append(f"{GPUS}/{name} cannot be read: {error.strerror or error}")
        found[name.removesuffix(".jsonl")] = kept.items()
    return found


def _new_peak(sample: GpuSample, most: dict[int, int]) -> bool:
    new = False
    for gpu in sample.gpus:
        if gpu.used_bytes is not None and gpu.used_bytes > most.get(gpu.index, -1):
            most[gpu.index], new = gpu.used_bytes, True
    return new


def _fingerprints(files: Files, notes: list[str]) -> dict[int, Fingerprint]:
    found: dict[int, Fingerprint] = {}
    for name in files.ls(FINGERPRINT):
        match = _RANK_JSON.match(name)
        if match is None:
            continue
        one = _json(files, f"{FINGERPRINT}/{name}", Fingerprint, notes)
        if one is not None:
            found[int(match[1])] = one
    return dict(sorted(found.items()))


def _outputs(files: Files) -> tuple[str, ...]:
    """Those of the whole job first; the parts of a long one in their order."""
    whole = [(match, name) for name in files.ls("") if (match := _JOB_OUTPUT.match(name)) is not None]
    whole.sort(key=lambda one: (one[0][1], one[0][3] != "out", _PARTS.index(one[0][2])))
    ranks = [(match, name) for name in files.ls(RANKS) if (match := _OUTPUT.match(name)) is not None]
    ranks.sort(key=lambda one: (one[1][:10], one[0][2] != "out", _PARTS.index(one[0][1])))
    return (*(name for _, name in whole), *(f"{RANKS}/{name}" for _, name in ranks))


def _snapshots(files: Files) -> tuple[str, ...]:
    found: list[str] = []
    for folder in files.ls(OOM):
        if _RANK_FOLDER.match(folder):
            with contextlib.suppress(OSError):
                found += [
                    f"{OOM}/{folder}/{name}"
                    for name in files.ls(f"{OOM}/{folder}")
                    if name.endswith((".pickle", ".pkl"))
                ]
    return tuple(found)
