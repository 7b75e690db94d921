"""The model's parameters in groups, as a sharding strategy takes them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from oomph.job.families import dimensions
from oomph.job.families.architecture import Parameter
from oomph.job.model import ITEM_BYTES
from oomph.predict.compose import expert_parallel
from oomph.predict.compose.setup import Setup
from oomph.predict.sharding.base import Unit, UnitParameter
from oomph.predict.sharding.expert_parallel import is_of_experts


@dataclass(frozen=True)
class Units:
    """units: the root first. blocks: the unit of each layer. front, head: the units of embedding and output layer (0:
    the root's). `names`: parameters by the name that a section gives them, of the layers (any) and of the rest."""

    units: tuple[Unit, ...]
    blocks: tuple[int, ...]
    front: int
    head: int

    @property
    def outside(self) -> frozenset[int]:
        """The units that hold what is in no layer."""
        return frozenset((0, self.front, self.head))


def units_of(setup: Setup) -> Units:
    """Groups for this job: blocks as units, embedding and output layer in the root or apart."""
    architecture = setup.architecture
    wanted = setup.job.parallel.units
    code = setup.code.units if wanted == "blocks" else wanted
    apart = code in ("blocks_and_embeddings", "blocks_embedding_norm_head", "modules")
    outside = [each for each in architecture.outside if not each.tied]
    front = [each for each in outside if apart and each.kind == "embedding"]
    head = [
        each
        for each in outside
        if apart
        and each not in front
        and (each.name.startswith(architecture.head) or setup.code.head_with_norm)
    ]
    root = [each for each in outside if each not in front and each not in head]
    blocks = [
        Unit(f"block {layer}", _with_adapters(setup, architecture.layer(layer), setup.frozen_in(layer)))
        for layer in range(setup.layers)
    ]
    if code == "root":
        merged = tuple(each for unit in blocks for each in unit.parameters)
        only = Unit("root", (*_with_adapters(setup, outside), *merged))
        return Units((only,), (0,) * setup.layers, 0, 0)
    units = [Unit("root", _with_adapters(setup, root))]
    if front:
        units.append(Unit("embedding", _with_adapters(setup, front)))
    first = len(units)
    units += blocks
    if head:
        units.append(Unit("output layer", _with_adapters(setup, head)))
    return Units(
        tuple(units),
        tuple(range(first, first + setup.layers)),
        1 if front else 0,
        len(units) - 1 if head else 0,
    )


def _with_adapters(
    setup: Setup,
    parameters: list[Parameter] | tuple[Parameter, ...],
    frozen: frozenset[str] = frozenset(),
) -> tuple[UnitParameter, ...]:
    found: list[UnitParameter] = []
    for each in parameters:
        if each.tied:
            continue
        made = unit_parameter(setup, each)
        found.append(replace(made, trainable=False) if each.relative in frozen else made)
        if setup.adapts(each):
            found += adapters_of(setup, each)
    return tuple(found)


def unit_parameter(setup: Setup, parameter: Parameter) -> UnitParameter:
    """One parameter of the model, as one tensor-parallel rank has it."""
    job = setup.job
    precision = job.precision
    weight = setup.weight(parameter.relative)
    item = ITEM_BYTES[precision.weights]
    stored = setup.stored_bytes(parameter)
    divided = _parts(setup, parameter)
    compute = (
        ITEM_BYTES[precision.compute] if setup.sharded_in_compute and precision.compute != "fp8" else item
    )
    if precision.compute == "fp8":
        compute = 2.0
    grads = ITEM_BYTES[precision.grads] if precision.grads else item
    made = UnitParameter(
        parameter.name if parameter.layers is None else parameter.relative,
        parameter.numel // divided,
        weight.trainable,
        item,
        min(compute, item) if setup.sharded_in_compute else item,
        grads,
        stored // divided if stored != int(parameter.numel * item) else None,
        tuple(parameter.shape) if divided == 1 else (),
    )
    if job.parallel.expert > 1 and is_of_experts(made.name):
        return expert_parallel.divided(made, job.parallel.expert, expert_parallel.cut_along(job))
    return made


def _parts(setup: Setup, parameter: Parameter) -> int:
    """Into how many parts tensor parallelism divides a parameter."""
    split = setup.split
    if split is None or split.axis(parameter.relative) is None:
        return 1
    kv_heads = dimensions(setup.job.model).get("kv_heads", 0)
    if parameter.module in ("k_proj", "v_proj") and kv_heads:
        return min(split.ranks, kv_heads)
    return split.ranks


def adapters_of(setup: Setup, parameter: Parameter) -> list[UnitParameter]:
    """LoRA's two matrices beside a linear layer: rank x inputs and outputs x rank (PEFT's lora_A and lora_B), and
    DoRA's magnitudes, one for each output."""
    lora = setup.job.method.lora
    assert lora is not None
    outputs, inputs = _sides(setup, parameter)
    item = ITEM_BYTES[lora.dtype]
    compute = min(item, ITEM_BYTES[setup.adapters_dtype])
    module = parameter.relative.removesuffix(".weight")
    shapes: list[tuple[str, tuple[int, ...]]] = [("A", (lora.rank, inputs)), ("B", (outputs, lora.rank))]
    if lora.dora:
        shapes.append(("magnitude_vector", (outputs,)))
    return [
        UnitParameter(f"{module}.lora_{name}", prod(shape), True, item, compute, item, None, shape)
        for name, shape in shapes
    ]


def _sides(setup: Setup, parameter: Parameter) -> tuple[int, int]:
    """Outputs and inputs; GPT-2's Conv1D keeps its weight the other way round."""
    if setup.job.model.family == "gpt2":
        return parameter.shape[1], parameter.shape[0]
    return parameter.shape[0], parameter.shape[1]
