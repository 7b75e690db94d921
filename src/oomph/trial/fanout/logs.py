"""Logs of many ranks, searched by many processes: only what is kept of each comes back.

`python -m oomph.trial.fanout.logs FOLDER` is one of these processes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from oomph.evidence.sources import Elsewhere, Limits, Text, Wanted, read_wanted
from oomph.trial.engine import Engine
from oomph.trial.fanout.shares import Work, do_share, results_of, work_folder

#: Fewer are sooner read here than others are told about them.
LEAST_FILES = 2
_MODULE = "oomph.trial.fanout.logs"


def reads_elsewhere(engine: Engine, say: Callable[[str], None]) -> Elsewhere:
    """Reads files as tasks of `engine`. What no task could read is said by `say`, and is left to whoever asked."""

    def read(wanted: Sequence[Wanted]) -> Sequence[Text | None]:
        if len(wanted) < LEAST_FILES:
            return [None] * len(wanted)
        items = [[str(one.path.absolute()), one.explicit, one.size, asdict(one.limits)] for one in wanted]
        sizes = [one.size for one in wanted]
        with work_folder(engine) as folder:
            results = results_of(items, sizes, Work(_MODULE, {}), engine, folder, say)
        return [None if result is None else text_of(result) for result in results]

    return read


def packed(text: Text) -> dict[str, Any]:
    """A text as JSON has it."""
    return {
        "regions": text.regions,
        "size": text.size,
        "notes": list(text.notes),
        "reduced": text.reduced,
        "damage": text.damage,
        "needs": text.needs,
    }


def text_of(found: Mapping[str, Any]) -> Text:
    """The text that `packed` packed."""
    regions = [(int(line), str(text)) for line, text in found["regions"]]
    return Text(**{**found, "regions": regions})


def _read(item: Sequence[Any], _: Mapping[str, Any]) -> dict[str, Any] | None:
    path, explicit, size, limits = item
    text = read_wanted(Wanted(Path(path), explicit, size, Limits(**limits)))
    return None if text is None else packed(text)


if __name__ == "__main__":
    do_share(Path(sys.argv[1]), _read)
