"""What each block is for. The tracer sees it: parameters are what modules register, gradients what autograd's
accumulation keeps, optimizer state what the optimizer holds, activations what forward made and backward still finds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oomph.memory.categories import CATEGORIES, Category
from oomph.phases import Phase
from oomph.tracing.recorder.blocks import UNTOLD, Block

if TYPE_CHECKING:
    from oomph.tracing.recorder.memory import DeviceMemory
    from oomph.tracing.recorder.recorder import Recorder

_PHASES = tuple(Phase)
PARAMETERS = CATEGORIES.index(Category.PARAMETERS)
GRADIENTS = CATEGORIES.index(Category.GRADIENTS)
OPTIMIZER_STATE = CATEGORIES.index(Category.OPTIMIZER_STATE)
ACTIVATIONS = CATEGORIES.index(Category.ACTIVATIONS)
TEMPORARIES = CATEGORIES.index(Category.TEMPORARIES)
WORKSPACE = CATEGORIES.index(Category.WORKSPACE)
UNKNOWN = CATEGORIES.index(Category.UNKNOWN)
_FORWARD = _PHASES.index(Phase.FORWARD)
_LOAD = _PHASES.index(Phase.LOAD)


def _mark(recorder: Recorder, tensor: Any, category: int, name: str | None = None) -> None:
    """Names the block under a tensor, if nothing else has."""
    local = getattr(tensor, "_local_tensor", tensor)
    if not hasattr(local, "fake_device") or local.fake_device.type != "cuda":
        return
    try:
        block = recorder.storages.block_of(local)
    except NotImplementedError:  # a sparse tensor has no storage of its own
        return
    if block is None or block.category not in (UNTOLD, ACTIVATIONS):
        return
    block.category = category
    if name is not None:
        block.label = recorder.label_number(name)


def parameters(recorder: Recorder, tensors: Any) -> None:
    """(name, tensor) pairs of a module: its parameters and buffers."""
    for name, tensor in tensors:
        if tensor is not None:
            _mark(recorder, tensor, PARAMETERS, name)


def inputs(recorder: Recorder, values: Any) -> None:
    """What a module gets that no other module calls: its input lives as long as activations do, and for them."""
    for value in values:
        if hasattr(value, "untyped_storage"):
            _mark(recorder, value, ACTIVATIONS, "input")
        elif isinstance(value, dict):
            inputs(recorder, value.values())
        elif isinstance(value, (list, tuple)):
            inputs(recorder, value)


def gradients(recorder: Recorder, tensors: Any) -> None:
    """Parameters, of which the gradients are marked."""
    for tensor in tensors:
        if tensor.grad is not None:
            _mark(recorder, tensor.grad, GRADIENTS)


def optimizer_state(recorder: Recorder, optimizer: Any) -> None:
    """Everything that the optimizer holds per parameter."""
    for state in optimizer.state.values():
        if isinstance(state, dict):
            _marks(recorder, state.values())


def _marks(recorder: Recorder, values: Any) -> None:
    for value in values:
        if hasattr(value, "untyped_storage"):
            _mark(recorder, value, OPTIMIZER_STATE)
        elif isinstance(value, dict):
            _marks(recorder, value.values())
        elif isinstance(value, (list, tuple)):
            _marks(recorder, value)


def activations(recorder: Recorder) -> None:
    """Backward begins: what forward made and is still there was kept for it."""
    for block in recorder.storages.alive():
        if block.category == UNTOLD and block.phase == _FORWARD:
            block.category = ACTIVATIONS


def finish(memory: DeviceMemory, alive: set[int]) -> list[int]:
    """The category of each block that nothing told. `alive` are numbers of blocks that are there at the end: of those
    that nobody named it is not known what they are for; the others came and went."""
    result = []
    for block in memory.allocs:
        category = block.category
        if category == UNTOLD:
            category = _rest(block, alive)
        result.append(category)
    return result


def _rest(block: Block, alive: set[int]) -> int:
    if block.number in alive:
        return ACTIVATIONS if block.phase == _FORWARD else UNKNOWN
    return TEMPORARIES
