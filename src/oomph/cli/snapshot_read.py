"""Files to answers: reading, and one sentence about each file that cannot be read."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oomph.cli.progress import Progress
from oomph.errors import InputError

if TYPE_CHECKING:
    from oomph.cli.snapshot import Request
    from oomph.cli.snapshot_far import FarAnswers
    from oomph.diagnose.snapshot.analysis import Analysis
    from oomph.diagnose.snapshot.model import SnapshotReport
    from oomph.trial.engine import Engine

#: Bytes at the start of a file that tell whether it is text.
_HEAD = 4096


@dataclass(frozen=True)
class Answer:
    """What one file says. `analyses` has an entry for each device of the report."""

    path: str
    report: SnapshotReport
    analyses: tuple[Analysis, ...]

    @property
    def shown(self) -> Analysis | None:
        """The device to look at; None where PyTorch held nothing."""
        return self.analyses[self.report.shown] if self.analyses else None


def read_all(
    request: Request, capacity_bytes: int | None, rules: tuple[Sequence[str], Sequence[str]], say: Say
) -> tuple[list[Answer], list[str]]:
    """The answers, and a sentence for each file that could not be read.

    Raises InputError when none could be read, UsageError for an option that a file cannot do (a moment beyond its
    end).
    """
    from oomph.cli.fan_out import asked_engine

    answers: list[Answer] = []
    refused: list[str] = []
    options = {
        "at": request.at,
        "device": request.device,
        "capacity_bytes": capacity_bytes,
        "what_if": request.what_if,
        "select": rules[0],
        "ignore": rules[1],
    }
    with asked_engine(request) as engine, _far(request.files, options, engine, say) as far:
        for number, path in enumerate(request.files):
            found = far(number)
            try:
                if found is None:
                    answers.append(_read(request, path, options, say))
                else:
                    answers.append(Answer(path, *found))
            except InputError as error:
                refused.append(refusal(path, error))
    if not answers:
        for sentence in refused[:-1]:
            say(sentence)
        raise InputError(refused[-1])
    return answers, refused


def _far(
    files: Sequence[str], options: Mapping[str, Any], engine: Engine | None, say: Say
) -> AbstractContextManager[FarAnswers]:
    """What others have read of the files; nothing without an engine."""
    if engine is None:
        return nullcontext(lambda _: None)
    from oomph.cli.snapshot_far import far_answers

    return far_answers(files, options, engine, say)


def _read(
    request: Request,
    path: str,
    options: Mapping[str, Any],
    say: Say,
) -> Answer:
    from oomph.api import snapshot_with_analyses

    progress = Progress(sys.stderr, verbose=request.verbose, quiet=request.quiet)
    size = _size(path)
    started = time.monotonic()

    def stage(what: str) -> None:
        progress.stage(f"{what} {size / 10**6:,.0f} MB", size)

    try:
        report, analyses = snapshot_with_analyses(path, **options, stage=stage)
    finally:
        progress.finish()
    if request.verbose and not request.quiet:
        events = sum(device.events for device in report.devices)
        say(f"read {path}: {size:,} bytes, {events:,} events, {time.monotonic() - started:.2f} s")
    return Answer(path, report, analyses)


def _size(path: str) -> int:
    try:
        return Path(path).stat().st_size
    except (OSError, ValueError):
        return 0  # reading says what is wrong


def refusal(path: str, error: InputError) -> str:
    """Why a file cannot be read and, where another command or another path is meant, which."""
    try:
        if Path(path).is_dir():
            return f"{path} is a folder: name the snapshots in it"
        with Path(path).open("rb") as stream:
            head = stream.read(_HEAD)
    except (OSError, ValueError):
        return str(error)
    if is_text(head):
        return f"{path} is text, not a memory snapshot. If it is a job's log: oomph explain {path}"
    return str(error)


def is_text(head: bytes) -> bool:
    """Whether the start of a file is text, as a log or a JSON document is."""
    if not head.strip() or b"\0" in head:
        return False
    try:
        text = head.decode("utf-8")
    except UnicodeDecodeError as error:
        if len(head) < _HEAD or error.start < len(head) - 4:  # a character may be cut at the end
            return False
        text = head[: error.start].decode("utf-8")
    return all(character.isprintable() or character in "\t\r\n\x1b\x0c\b" for character in text)


#: Says a sentence on stderr.
Say = Callable[[str], None]
