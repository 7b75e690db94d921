"""A run by what people call it: `oomph verify last`, `oomph plan --against last~1`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from oomph.evidence.run.data import RunData


def run_named(name: str) -> RunData:
    """The run directory of that path, or the run that `oomph runs` finds by that name (an id, `last`, a URL). Raises
    InputError and UsageError where there is none."""
    from oomph.evidence.run.read import is_run, read_run

    if is_run(name):
        return read_run(name)
    from oomph.recording.store import Store

    with Store() as store:
        return store.read(name)[1]
