"""One pipeline stage as a job of its own: its layers, its program, its groups of parameters."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import msgspec

from oomph.predict.compose import pieces
from oomph.predict.compose.pieces import Mode
from oomph.predict.compose.setup import Setup
from oomph.predict.compose.units import Units, units_of
from oomph.predict.programs.load import Program, Section
from oomph.predict.sharding.base import Unit

_LAYERS = ("num_hidden_layers", "n_layer", "num_layers", "n_layers")


@dataclass(frozen=True)
class StageSetup(Setup):
    """A job whose model is one stage. first, last: it has the embedding, the output layer."""

    first: bool = True
    last: bool = True

    @cached_property
    def program(self) -> Program:
        """The program; logits are held by the schedule, not let go by the loss."""
        program = super().program
        loss = program.sections.get("loss")
        outlet = program.sections["after"].outlet
        if loss is None or loss.inlet is None or outlet is None:
            return program
        storage = program.tensors[loss.inlet][0]
        items = [item for item in loss.items if item[0] != "drop" or item[1] != storage]
        sections = {**program.sections, "loss": Section(items, loss.inlet, loss.outlet)}
        return Program(program.storages, program.tensors, sections, {**program.kept, "logits": outlet})


def stage_setup(setup: Setup, layers: int, first: bool, last: bool) -> StageSetup:
    """The setup of a stage with so many layers."""
    job = setup.job
    config = tuple(
        msgspec.structs.replace(each, value=layers) if each.key in _LAYERS else each
        for each in job.model.config
    )
    strategy = job.parallel.strategy
    # torchtitan does not reshard after forward where there are several micro-batches of a pipeline.
    strategy = "fsdp2_no_reshard" if strategy == "fsdp2_full" else strategy
    staged = msgspec.structs.replace(
        job,
        model=msgspec.structs.replace(job.model, config=config),
        parallel=msgspec.structs.replace(job.parallel, strategy=strategy),
    )
    code = replace(setup.code, logits_through_backward=True, label=f"{setup.code.label} (a stage)")
    return StageSetup(staged, code, setup.gpu, setup.torch, first=first, last=last)


def stage_units(setup: StageSetup) -> Units:
    """Groups of the stage's parameters."""
    whole = units_of(setup)
    kinds = {each.name: each.kind for each in setup.architecture.outside}
    kept: list[Unit] = []
    places: dict[int, int] = {}
    for number, unit in enumerate(whole.units):
        parameters = tuple(
            each
            for each in unit.parameters
            if number in whole.blocks or (setup.first if kinds.get(each.name) == "embedding" else setup.last)
        )
        if parameters or number == 0:
            places[number] = len(kept)
            kept.append(Unit(unit.name, parameters))
    return Units(
        tuple(kept),
        tuple(places[number] for number in whole.blocks),
        places.get(whole.front, 0),
        places.get(whole.head, 0),
    )


def hidden_bytes(setup: Setup) -> int:
    """Bytes of the hidden state between layers."""
    return pieces.block(setup, Mode(grad=False, pinned=True)).forward.sizes[0]
