"""Memory snapshots read by many processes: each file's answer comes back whole.

`python -m oomph.cli.snapshot_far FOLDER` is one of these processes. Answers come back as pickles in a folder that only
this user may enter, and are read by the command that made the folder. A file without an answer, for whatever reason,
is read by that command itself, which then says what is wrong in its own words.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oomph.errors import OomphError
from oomph.trial.fanout.shares import Work, do_share, results_of, work_folder

if TYPE_CHECKING:
    from oomph.diagnose.snapshot.analysis import Analysis
    from oomph.diagnose.snapshot.model import SnapshotReport
    from oomph.trial.engine import Engine

#: Fewer are sooner read here than others are told about them.
LEAST_FILES = 2
_MODULE = "oomph.cli.snapshot_far"

#: Gives the answer of a file, by its number among those that were asked for, once; None where there is none.
FarAnswers = Callable[[int], "tuple[SnapshotReport, tuple[Analysis, ...]] | None"]


@contextlib.contextmanager
def far_answers(
    files: Sequence[str], options: Mapping[str, Any], engine: Engine | None, say: Callable[[str], None]
) -> Iterator[FarAnswers]:
    """Answers of files, read by tasks of `engine`; none without one. `options` are those of `api.snapshot`."""
    if engine is None or len(files) < LEAST_FILES:
        yield lambda _: None
        return
    with work_folder(engine) as folder:
        items = [[path, str(folder / f"answer{number}.pickle")] for number, path in enumerate(files)]
        common = {"directory": str(Path.cwd()), "options": dict(options)}
        sizes = [_size(path) for path in files]
        results = results_of(items, sizes, Work(_MODULE, common), engine, folder, say)

        def answer(number: int) -> tuple[SnapshotReport, tuple[Analysis, ...]] | None:
            if not results[number]:
                return None
            path = Path(items[number][1])
            with path.open("rb") as file:
                found: tuple[SnapshotReport, tuple[Analysis, ...]] = pickle.load(file)  # noqa: S301 - our own
            path.unlink()
            return found

        yield answer


def _size(path: str) -> int:
    try:
        return Path(path).stat().st_size
    except (OSError, ValueError):
        return 0


def _answer(item: Sequence[str], common: Mapping[str, Any]) -> bool:
    """In the other process: whether there is an answer now."""
    from oomph.api import snapshot_with_analyses

    path, target = item
    os.chdir(common["directory"])  # the path as the user gave it is in the answer
    try:
        answer = snapshot_with_analyses(path, **common["options"])
    except OomphError:
        return False
    with Path(target).open("wb") as file:
        pickle.dump(answer, file, protocol=pickle.HIGHEST_PROTOCOL)
    return True


if __name__ == "__main__":
    do_share(Path(sys.argv[1]), _answer)
