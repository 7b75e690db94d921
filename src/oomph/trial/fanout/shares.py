"""Items divided into shares, each worked on by one task; what has no result is left to whoever asked."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import oomph
from oomph.errors import OomphError
from oomph.trial.engine import Engine, Finished, Task

#: In a task's folder: what it is to do, and what it came to.
WANTED, RESULTS = "share.json", "results.json"
_LOOK_SECONDS = 1.0
#: So long is waited for tasks that were cancelled, before their folder goes away under them.
_END_SECONDS = 30.0


@dataclass(frozen=True)
class Work:
    """What is done with each item. `module` is run with `python -m`, with the folder that holds WANTED, and writes one
    result for each item into RESULTS of the same folder (JSON; null: it has none). `common` is told to every share."""

    module: str
    common: Mapping[str, Any]


def divided(sizes: Sequence[int], parts: int) -> list[list[int]]:
    """Numbers of items in at most `parts` shares of about the same size, none empty: the largest items first, each to
    the share that has least."""
    parts = max(1, min(parts, len(sizes)))
    shares: list[list[int]] = [[] for _ in range(parts)]
    loads = [0] * parts
    # An item costs something even when it is empty: without that, one share would get all empty ones.
    for index in sorted(range(len(sizes)), key=lambda index: -sizes[index]):
        least = min(range(parts), key=lambda part: (loads[part], part))
        shares[least].append(index)
        loads[least] += sizes[index] + 1
    return [sorted(share) for share in shares if share]


@contextmanager
def work_folder(engine: Engine) -> Iterator[Path]:
    """A folder for shares and results, seen by all who work on them: below the current one where other machines may
    do so. It goes away with all that is in it. Raises OomphError where none can be made."""
    place = None if engine.name == "local" else Path.cwd()
    try:
        folder = Path(
            tempfile.mkdtemp(prefix="oomph-files-" if place is None else ".oomph-files-", dir=place)
        )
    except OSError as error:
        raise OomphError(
            f"{place or tempfile.gettempdir()}: no folder for what --engine {engine.name} reads can be made: "
            f"{error.strerror or error}. Run it in a folder that can be written to and that all machines share."
        ) from error
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def results_of(
    items: Sequence[Any],
    sizes: Sequence[int],
    work: Work,
    engine: Engine,
    folder: Path,
    say: Callable[[str], None],
) -> list[Any]:
    """One result for each item, in their order; None for those that have none. `sizes` says how large each is.

    What fails is said, in one sentence for each kind of failure, and is no error. The engine is left open.
    """
    results: list[Any] = [None] * len(items)
    failed: dict[str, int] = {}
    running: dict[str, tuple[Task, list[int]]] = {}
    try:
        for number, share in enumerate(divided(sizes, engine.slots) if items else []):
            task = _task(folder, number, [items[index] for index in share], work)
            try:
                engine.start(task)
            except OomphError as error:
                _count(failed, str(error).rstrip("."), share)
            else:
                running[task.name] = task, share
        while running:
            for ended in engine.finished(_LOOK_SECONDS):
                _, share = running.pop(ended.task.name)
                found = _found(ended, len(share))
                if isinstance(found, str):
                    _count(failed, found, share)
                    continue
                for index, result in zip(share, found, strict=True):
                    results[index] = result
    except BaseException:  # Ctrl-C: nothing goes on that nobody waits for
        _end(engine, [task for task, _ in running.values()])
        raise
    for why, number in failed.items():
        say(
            f"{number} of {len(items)} files were not read by --engine {engine.name} and are read here: {why}"
        )
    return results


def _count(failed: dict[str, int], why: str, share: Sequence[int]) -> None:
    failed[why] = failed.get(why, 0) + len(share)


def _end(engine: Engine, tasks: Sequence[Task]) -> None:
    """Cancels what still runs, and waits for it: the folder that it writes to is removed next."""
    for task in tasks:
        engine.cancel(task)
    left = {task.name for task in tasks}
    until = time.monotonic() + _END_SECONDS
    while left and time.monotonic() < until:
        left -= {ended.task.name for ended in engine.finished(_LOOK_SECONDS)}


def _task(folder: Path, number: int, items: Sequence[Any], work: Work) -> Task:
    place = folder / f"share{number}"
    place.mkdir()
    (place / WANTED).write_text(json.dumps({"items": items, "common": dict(work.common)}), "utf-8")
    # Run in its own folder: where the user's files are, one of them may be named as a module that is imported.
    command = (sys.executable, "-m", work.module, str(place))
    paths = [str(Path(oomph.__file__).parent.parent), os.environ.get("PYTHONPATH", "")]
    environment = {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
    return Task(f"files {number + 1}", command, place, place, environment)


def _found(ended: Finished, number: int) -> list[Any] | str:
    """The results of a share, or why there are none."""
    if ended.exit_code == 0 and not ended.stopped:
        try:
            found = json.loads((ended.task.folder / RESULTS).read_text("utf-8"))
            if isinstance(found, list) and len(found) == number:
                return found
        except (OSError, ValueError):
            pass
        return "a worker left no result"
    if ended.why:
        return ended.why
    try:
        lines = (ended.task.folder / "err.txt").read_text("utf-8", "replace").strip().splitlines()
    except OSError:
        lines = []
    return f"a worker ended with exit code {ended.exit_code}" + (f" ({lines[-1]})" if lines else "")


def do_share(folder: Path, do: Callable[[Any, Mapping[str, Any]], Any]) -> None:
    """In the task: `do(item, common)` for each item of a share, and the results written in one step."""
    wanted = json.loads((folder / WANTED).read_text("utf-8"))
    results = [do(item, wanted["common"]) for item in wanted["items"]]
    part = folder / f"{RESULTS}.part"
    part.write_text(json.dumps(results), "utf-8")
    part.replace(folder / RESULTS)
