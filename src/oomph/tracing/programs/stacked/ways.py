"""All ways to run a family with several stacks that its file has programs for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from typing import Any

from oomph.tracing.programs.forward import Studio
from oomph.tracing.programs.record import Made
from oomph.tracing.programs.same import same_at
from oomph.tracing.programs.stacked.families import Family, model
from oomph.tracing.programs.stacked.record import Recorded, Stacked, numbers_of, record
from oomph.tracing.programs.store import Store
from oomph.tracing.programs.ways import PRECISIONS

#: Sets of dimensions that expressions are found from; one more verifies them.
_RUNS = 5


@dataclass(frozen=True)
class Way:
    """What a variant is chosen by."""

    precision: str
    attention: str
    heads: str
    task: str
    one: bool = False
    dropout: bool = False
    form: str = ""
    padded: bool = False


def ways(family: Family) -> Iterator[Way]:
    """Those with a batch of any size."""
    drops = (False, True) if family.dropout else (False,)
    pads = (False, True) if family.pads else (False,)
    for padded, task, heads, form, dropout, attention, precision in product(
        pads, family.tasks, family.heads, family.forms, drops, family.attention, PRECISIONS
    ):
        flash = attention == "flash_attention_2"
        # What flash_attn does without padded tokens depends on lengths here and there.
        if not flash or not (padded or precision == "fp32"):
            yield Way(precision, attention, heads, task, dropout=dropout, form=form, padded=padded)


def fill(
    store: Store,
    family: Family,
    wanted: Callable[[Way], bool],
    known: Mapping[tuple[Any, ...], Sequence[tuple[Mapping[str, Any], Made]]],
    tell: Callable[[Way], Any],
) -> None:
    """Records all wanted ways; a batch of one apart only where it does something else. `known`: variants that are taken
    over, by the way without `one`."""
    with Studio() as studio:
        for way in ways(family):
            there = known.get(tuple(value for name, value in asdict(way).items() if name != "one"))
            if there is not None:
                for choice, its in there:
                    store.add(choice, its)
            elif wanted(way):
                tell(way)
                found = made(family, way, studio)
                store.add(_choice(way, found), found.made)
                alone = replace(way, one=True)
                if not _holds_for_one(family, alone, found, studio):
                    other = made(family, alone, studio)
                    store.add(_choice(alone, other), other.made)


def made(family: Family, way: Way, studio: Studio) -> Recorded:
    """Records one way."""
    dimensions = family.sets(way.heads, way.one)[:_RUNS]
    return record(subject_of(family, way), dimensions, family.names, studio)


def subject_of(family: Family, way: Way) -> Stacked:
    """The model of a way and how it is run."""
    task = family.tasks[way.task]

    def batch(dimensions: Mapping[str, int]) -> Mapping[str, Any]:
        made = dict(task.batch(dimensions))
        if way.padded:
            # One token is padded, the least that makes a difference (programs/padded.py).
            made["attention_mask"][0, -1] = 0
        return made

    return Stacked(
        lambda dimensions: model(family, dimensions, way.attention, way.dropout, way.form, way.task),
        task.run,
        batch,
        family.stacks[way.task],
        way.precision,
    )


def _holds_for_one(family: Family, way: Way, found: Recorded, studio: Studio) -> bool:
    """Whether the program is that of a batch of one too; at dimensions that expressions were not found from, so that
    they are verified."""
    dimensions = family.sets(way.heads, True)[_RUNS]
    alone = numbers_of(subject_of(family, way), dimensions, studio)
    if alone.order != found.order or alone.made.kept != found.made.kept:
        return False
    general, one = found.made.sections, alone.made.sections
    return list(general) == list(one) and all(
        same_at(general[name], one[name], dimensions) for name in general
    )


def _choice(way: Way, found: Recorded) -> dict[str, Any]:
    """A variant's keys; `form` and `padded` only where they say something."""
    chosen = {name: value for name, value in asdict(way).items() if name not in ("form", "padded") or value}
    return {**chosen, "order": found.order}
