"""Files for other tools: what was alive for speedscope, events as CSV or Parquet, a smaller snapshot for PyTorch."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from oomph.errors import UsageError
from oomph.report.exports.target import check_target

if TYPE_CHECKING:
    from oomph.diagnose.snapshot.analysis import Analysis

#: Ending and what is written under it, as `--export` names them.
ENDINGS = {
    ".speedscope.json": "what was alive, for speedscope",
    ".csv": "the events",
    ".parquet": "the events",
    ".pickle": "a smaller snapshot",
}


def ending_of(path: str | Path) -> str:
    """Which of `ENDINGS` a file has, whatever its letter case. Raises UsageError, with the list, for another one."""
    name = Path(path).name.lower()
    found = next((ending for ending in ENDINGS if name.endswith(ending)), None)
    if found is None:
        known = ", ".join(f"{ending} ({what})" for ending, what in ENDINGS.items())
        raise UsageError(
            f"{path}: nothing is exported under this ending; give a path that ends in one of {known}"
        )
    return found


def check_export(path: str | Path, inputs: tuple[str, ...] = ()) -> None:
    """Raises UsageError where `export` could not write to `path`, before any work is done: an unknown ending, a
    folder, one of the `inputs`, or no pyarrow for Parquet."""
    if ending_of(path) == ".parquet":
        from oomph.report.exports.parquet import pyarrow

        pyarrow()
    check_target(Path(path), inputs)


def export(
    path: str | Path,
    analysis: Analysis,
    *,
    first: int | None = None,
    last: int | None = None,
    redact: bool = False,
) -> None:
    """Writes one device of a snapshot to `path`, in the format that its ending says (`ENDINGS`).

    `first` and `last` are positions, `last` not included: the events of a table (without them all), or of the smaller
    snapshot (without them `window.around_the_moment`). speedscope shows the moment and needs neither. `redact` takes
    names of people and machines, paths and secrets out of all text. The file appears whole or not at all; raises
    UsageError where it cannot be written, where it is the snapshot itself, and for a window that holds nothing.
    """
    ending = ending_of(path)
    check_export(path, (analysis.snapshot.source,))
    target = Path(path)
    if ending == ".speedscope.json":
        from oomph.report.exports.speedscope import write_speedscope

        write_speedscope(target, analysis, redact=redact)
    elif ending == ".pickle":
        from oomph.report.exports.smaller import write_smaller

        write_smaller(target, analysis, first=first, last=last, redact=redact)
    elif ending == ".csv":
        from oomph.report.exports.events_csv import write_csv

        write_csv(target, analysis, first=first, last=last, redact=redact)
    else:
        from oomph.report.exports.parquet import write_parquet

        write_parquet(target, analysis, first=first, last=last, redact=redact)
