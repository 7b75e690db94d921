"""All ways to run a family of transformers that its file has programs for."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from itertools import product
from typing import Any

from oomph.tracing.programs.cut import sections
from oomph.tracing.programs.dimensions import sets
from oomph.tracing.programs.families import Family, model
from oomph.tracing.programs.forward import Studio, Subject
from oomph.tracing.programs.record import NAMES, Made, kept_of, record
from oomph.tracing.programs.same import same_at
from oomph.tracing.programs.store import Store
from oomph.tracing.programs.symbols import Numbers
from oomph.tracing.programs.tasks import TASKS

#: Sets of dimensions that expressions are found from; one more verifies them.
_RUNS = 5
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
    form: str = ""


def ways(family: Family) -> Iterator[Way]:
    """Those with a batch of any size, most usual first."""
    for task in family.tasks:
        for heads in family.heads:
            for dropout in (False, True) if family.dropout else (False,):
                for form, attention in product(family.forms, family.attention):
                    for precision in PRECISIONS:
                        if (attention, precision) != ("flash_attention_2", "fp32"):
                            yield Way(precision, attention, heads, dropout=dropout, task=task, form=form)
            # Other implementations of attention do the same whatever the window.
            for precision in PRECISIONS if family.window else ():
                yield Way(precision, "sdpa", heads, window=True, task=task)


def made(family: Family, way: Way, studio: Studio | None = None) -> Made:
    """Records one way, in a studio that is there or one of its own."""
    subject = subject_of(family, way)
    return record(
        subject.build,
        subject.run,
        layers=subject.layers,
        head=subject.head,
        dimension_sets=_sets(family, way)[:_RUNS],
        names=(*NAMES, *family.names),
        precision=subject.precision,
        batch=subject.batch,
        kinds=_kinds(family, way),
        studio=studio,
    )


def fill(
    store: Store,
    family: Family,
    wanted: Callable[[Way], bool],
    tell: Callable[[Way], Any],
    entered: Studio | None = None,
) -> None:
    """Records all wanted ways; a batch of one apart only where it does something else. `entered` is a studio that is
    there, for another GPU than the usual one."""
    with nullcontext(entered) if entered is not None else Studio() as studio:
        alone = _Alone(family, studio)
        for way in ways(family):
            if wanted(way):
                tell(way)
                any_batch = made(family, way, studio)
                store.add(_choice(way), any_batch)
                one = alone.made(way, any_batch)
                if one is not None:
                    store.add(_choice(replace(way, one=True)), one)


class _Alone:
    """Programs for a batch of one. Mostly one section differs, and it is the same in many ways: each is recorded once.
    The run that tells is at dimensions that expressions were not found from, and so verifies those that hold."""

    def __init__(self, family: Family, studio: Studio) -> None:
        self.family = family
        self.studio = studio
        self.known: dict[str, dict[str, Any]] = {}

    def made(self, way: Way, any_batch: Made) -> Made | None:
        """The program; None where that for any batch is it."""
        way = replace(way, one=True)
        dimensions = _sets(self.family, way)[_RUNS]
        kinds = _kinds(self.family, way)
        subject = subject_of(self.family, way)
        cut, links = sections(self.studio.forward(subject, dimensions), subject.layers, kinds)
        runs = {name: Numbers().section([section]) for name, section in cut.items()}
        if list(runs) != list(any_batch.sections):
            return made(self.family, way, self.studio)
        general = any_batch.sections
        other = {
            name: json.dumps([way.heads, general[name], run])
            for name, run in runs.items()
            if not same_at(general[name], run, dimensions)
        }
        if not other and kept_of(links) == any_batch.kept:
            return None
        if any(key not in self.known for key in other.values()):
            fresh = made(self.family, way, self.studio)
            self.known.update({key: fresh.sections[name] for name, key in other.items()})
        return Made({**general, **{name: self.known[key] for name, key in other.items()}}, kept_of(links))


def subject_of(family: Family, way: Way) -> Subject:
    """The model of a way and how it is run."""
    task, more = TASKS[way.task], {**(family.window if way.window else {}), **family.forms[way.form]}
    return Subject(
        lambda dimensions: model(family, dimensions, way.attention, way.dropout, more, way.task),
        task.run,
        task.batch,
        family.layers,
        family.tasks[way.task],
        way.precision,
    )


def _kinds(family: Family, way: Way) -> tuple[str, ...]:
    """Sections of layers: where there is a window, they differ with it only."""
    return family.kinds if way.window or not family.window else ()


def _sets(family: Family, way: Way) -> list[dict[str, int]]:
    return sets(way.heads, one=way.one, hidden=family.hidden, images=family.images, latent=family.latent)


def _choice(way: Way) -> dict[str, Any]:
    """A variant's keys; `window` only where it is true, `task` only where it is not a causal language model, `form`
    only where there are several."""
    usual = {"window": False, "task": "causal_lm", "form": ""}
    return {name: value for name, value in asdict(way).items() if name not in usual or usual[name] != value}
