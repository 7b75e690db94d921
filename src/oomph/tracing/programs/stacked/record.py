"""Records a model with several stacks: one forward pass for each set of dimensions, cut into sections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from typing import Any

from oomph.tracing.programs.cut import Link, Section
from oomph.tracing.programs.errors import ProgramError
from oomph.tracing.programs.forward import Batch, Build, Forward, Studio
from oomph.tracing.programs.record import Made, kept_of
from oomph.tracing.programs.stacked.cut import LAYERS, order, sections
from oomph.tracing.programs.stacked.lists import together
from oomph.tracing.programs.symbols import Numbers, Symbols
from oomph.tracing.programs.watch import Run, Watch


@dataclass(frozen=True)
class Stacked:
    """What is recorded. `stacks`: names of the lists of layers, as `get_submodule` takes them."""

    build: Build
    run: Forward
    batch: Batch
    stacks: tuple[str, ...]
    precision: str = "bf16"


@dataclass(frozen=True)
class Recorded:
    """`made`: sections as the store takes them; `order`: what runs, in order."""

    made: Made
    order: list[str]


def forward(studio: Studio, subject: Stacked, dimensions: Mapping[str, int]) -> Run:
    """Runs once, in training mode and without gradients."""
    import torch

    watch = Watch(dimensions)
    watch.trains = True
    studio.watching(watch)
    with ExitStack() as stack:
        net = subject.build(dimensions)
        low = subject.precision.startswith("bf16")
        net = (net.to(torch.bfloat16) if low else net).to("cuda").train()
        batch = {name: tensor.to("cuda") for name, tensor in subject.batch(dimensions).items()}
        watch.module(net)
        watch.inputs(batch)
        for name in subject.stacks:
            _hooks(stack, net.get_submodule(name), name, watch)
        with torch.no_grad(), watch.mode():
            cast = torch.autocast("cuda", dtype=torch.bfloat16)
            with cast if subject.precision.endswith("autocast") else nullcontext():
                kept = subject.run(net, batch, dimensions)
            watch.run.kept = {name: watch.number(tensor) for name, tensor in kept.items()}
        watch.close()
    together(watch.run)
    return watch.run


def _hooks(stack: ExitStack, layers: Any, name: str, watch: Watch) -> None:
    if len(layers) != LAYERS:
        raise ProgramError(f"{name} has {len(layers)} layers; {LAYERS} are recorded")
    for number, layer in enumerate(layers):

        def begins(_module: Any, _args: Any, number: int = number) -> None:
            watch.mark(f"begin {name} {number}")

        def ends(_module: Any, _args: Any, _out: Any, number: int = number) -> None:
            watch.mark(f"end {name} {number}")

        stack.callback(layer.register_forward_pre_hook(begins).remove)
        stack.callback(layer.register_forward_hook(ends).remove)


def record(
    subject: Stacked, dimension_sets: Sequence[Mapping[str, int]], names: Sequence[str], studio: Studio
) -> Recorded:
    """The sections with sizes as expressions of `names`. Raises ProgramError where the runs differ in more than
    sizes."""
    runs = [forward(studio, subject, each) for each in dimension_sets]
    cuts = [sections(run, subject.stacks) for run in runs]
    symbols = Symbols(dimension_sets, names)
    return Recorded(_merged(cuts, symbols), _order(runs))


def numbers_of(subject: Stacked, dimensions: Mapping[str, int], studio: Studio) -> Recorded:
    """One run, with numbers for sizes."""
    run = forward(studio, subject, dimensions)
    return Recorded(_merged([sections(run, subject.stacks)], Numbers()), order(run))


def _merged(cuts: Sequence[tuple[dict[str, Section], dict[str, Link]]], symbols: Symbols) -> Made:
    first, kept = cuts[0]
    if any(list(found) != list(first) or its != kept for found, its in cuts[1:]):
        raise ProgramError("which sections there are, or what is kept, depends on the dimensions")
    return Made(
        {name: symbols.section([found[name] for found, _ in cuts]) for name in first},
        kept_of(kept),
    )


def _order(runs: Sequence[Run]) -> list[str]:
    found = [order(run) for run in runs]
    if any(each != found[0] for each in found[1:]):
        raise ProgramError("the order in which stacks run depends on the dimensions")
    return found[0]
