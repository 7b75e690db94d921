"""Makes the sections of one way to run a model: from a class and a function that runs its forward pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

from oomph.tracing.programs.cut import Link, Section, sections
from oomph.tracing.programs.errors import ProgramError
from oomph.tracing.programs.forward import Batch, Build, Forward, Studio, Subject, text_batch
from oomph.tracing.programs.symbols import Symbols

#: What a program's sizes are made of; `groups` is heads / kv_heads, `rotary` the part of a head that turns with the
#: position.
NAMES = (
    "b",
    "s",
    "hidden",
    "intermediate",
    "heads",
    "kv_heads",
    "groups",
    "head_dim",
    "vocab",
    "positions",
    "rotary",
)


@dataclass(frozen=True)
class Made:
    """Sections by name, as docs/programs.md has them in a file, and where what is kept is: [section, tensor]."""

    sections: dict[str, dict[str, Any]]
    kept: dict[str, list[Any]]


def record(
    build: Build,
    run: Forward,
    *,
    layers: str,
    head: str,
    dimension_sets: Sequence[Mapping[str, int]],
    names: Sequence[str] = NAMES,
    precision: str = "bf16",
    batch: Batch = text_batch,
    kinds: Sequence[str] = (),
    studio: Studio | None = None,
) -> Made:
    """Runs the model once for each set of dimensions (five at least, and unrelated numbers) and gives its sections with
    sizes as expressions of `names`.

    `build(dimensions)` makes the module on the CPU, `run(module, batch, dimensions)` its forward pass, and returns what
    the training loop holds afterwards, by name. `kinds` names the section of each layer where there are several kinds.
    `studio` is an entered Studio, where several records share one; else an A100 for torch 2.13. Raises ProgramError
    where the runs differ in more than sizes, layers differ from each other, or a size is no expression.
    """
    subject = Subject(build, run, batch, layers, head, precision)
    with nullcontext(studio) if studio is not None else Studio() as place:
        cuts = [sections(place.forward(subject, each), layers, kinds) for each in dimension_sets]
    return _merged(cuts, Symbols(dimension_sets, names))


def _merged(cuts: Sequence[tuple[dict[str, Section], dict[str, Link]]], symbols: Symbols) -> Made:
    first, kept = cuts[0]
    for other, its in cuts[1:]:
        if list(other) != list(first) or its != kept:
            raise ProgramError(
                "what is kept, or whether the first layer is like the others, depends on the dimensions"
            )
    return Made(
        {name: symbols.section([cut[name] for cut, _ in cuts]) for name in first},
        kept_of(kept),
    )


def kept_of(links: Mapping[str, Link]) -> dict[str, list[Any]]:
    """What is kept, as a file has it."""
    return {name: [link.section, link.number] for name, link in links.items()}
