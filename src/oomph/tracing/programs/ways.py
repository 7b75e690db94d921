"""All ways to run a family of transformers that its file has programs for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

from oomph.tracing.programs.dimensions import sets
from oomph.tracing.programs.families import Family, model
from oomph.tracing.programs.forward import Studio
from oomph.tracing.programs.record import NAMES, Made, record
from oomph.tracing.programs.same import same_for_one
from oomph.tracing.programs.store import Store
from oomph.tracing.programs.tasks import TASKS

PRECISIONS = ("bf16", "fp32", "fp32-autocast", "bf16-autocast")


@dataclass(frozen=True)
class Way:
    """What a variant is chosen by."""

    precision: str
    attention: str
    heads: str
    one: bool = False
    dropout: bool = False
    window: bool = False
    task: str = "causal_lm"


def ways(family: Family) -> Iterator[Way]:
    """Those with a batch of any size, most usual first."""
    for task in family.tasks:
        for heads in family.heads:
            for dropout in (False, True) if family.dropout else (False,):
                for attention in family.attention:
                    for precision in PRECISIONS:
                        if (attention, precision) != ("flash_attention_2", "fp32"):
                            yield Way(precision, attention, heads, dropout=dropout, task=task)
            # Other implementations of attention do the same whatever the window.
            for precision in PRECISIONS if family.window else ():
                yield Way(precision, "sdpa", heads, window=True, task=task)


def made(family: Family, way: Way, studio: Studio | None = None) -> Made:
    """Records one way, in a studio that is there or one of its own. A batch of one needs no further set to verify."""
    runs = sets(way.heads, one=way.one, hidden=family.hidden, images=family.images)
    more = family.window if way.window else {}
    task = TASKS[way.task]
    return record(
        lambda dimensions: model(family, dimensions, way.attention, way.dropout, more, way.task),
        task.run,
        layers=family.layers,
        head=family.tasks[way.task],
        dimension_sets=runs[:5] if way.one else runs,
        names=(*NAMES, *family.names),
        precision=way.precision,
        batch=task.batch,
        kinds=family.kinds if way.window else (),
        studio=studio,
    )


def fill(store: Store, family: Family, wanted: Callable[[Way], bool], tell: Callable[[Way], Any]) -> None:
    """Records all wanted ways; a batch of one apart only where it does something else."""
    with Studio() as studio:
        for way in ways(family):
            if not wanted(way):
                continue
            tell(way)
            any_batch = made(family, way, studio)
            store.add(_choice(way), any_batch)
            alone = replace(way, one=True)
            one = made(family, alone, studio)
            if not same_for_one(any_batch, one):
                tell(alone)
                store.add(_choice(alone), one)


def _choice(way: Way) -> dict[str, Any]:
    """A variant's keys; `window` only where it is true, `task` only where it is not a causal language model."""
    usual = {"window": False, "task": "causal_lm"}
    return {name: value for name, value in asdict(way).items() if name not in usual or usual[name] != value}
