"""What every strategy of parallel data does around the units of a model.

The composed step (`predict/compose/step.py`) calls these in the order in which PyTorch would run them. Unit 0 is
the root (what no other unit holds), units 1..n follow the order of forward. A strategy allocates and frees
through the sink that it was made with, and owns parameters, gradients and communication buffers; blocks'
activations are not its affair."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class UnitParameter:
    """One parameter of a unit on this rank before sharding over data ranks (tensor parallelism has divided it
    already). `weight_bytes`, `compute_bytes`, `grad_bytes`: bytes per element of the stored parameter, of what
    is used in computing, and of the stored gradient. A quantised parameter's resident bytes are `stored_bytes`
    (None: numel * weight_bytes). `shape`: of what this rank steps; () where it is not known or flat (FSDP1):
    then optimizers that factor their states (Adafactor) treat it as a vector."""

    name: str
    numel: int
    trainable: bool
    weight_bytes: float
    compute_bytes: float
    grad_bytes: float
    stored_bytes: int | None = None
    shape: tuple[int, ...] = ()

    @property
    def resident_bytes(self) -> int:
        """Bytes of the whole parameter as stored."""
        return int(self.numel * self.weight_bytes) if self.stored_bytes is None else self.stored_bytes


@dataclass(frozen=True)
class Unit:
    """A group of parameters that is gathered and freed together (an FSDP unit, a ZeRO-3 module, a block)."""

    name: str
    parameters: tuple[UnitParameter, ...]


@dataclass(frozen=True)
class Grad:
    """A gradient that a unit's backward left: the sink's handle, and which parameter it is of."""

    handle: int
    parameter: UnitParameter
    bytes: int


class Sharding(Protocol):
    """One strategy on one rank. Calls come in this order:

    setup; then for each micro-batch: forward_begin, (forward_before, forward_after) per unit in order,
    forward_end, backward_begin, (backward_before, backward_after) per unit in reverse, backward_end; then
    step_begin, the optimizer's step over optimizer_parameters, step_end; zero_grad at the end of the step
    (set_to_none).

    The root's hooks lie around all others: its parameters are gathered in forward_begin, and what its
    pre-backward hook does is done in backward_begin (so call that where the gradient of the root's output is
    there: before the backward of a loss that the root computed itself, as in transformers, after that of one
    computed outside). forward_before(0), forward_after(0) and backward_before(0) do nothing and need not be
    called; backward_after(0, ...) may come several times, as the root's gradients are made: they are worked off
    in backward_end. A forward without backward (evaluation) is forward_begin to forward_end alone."""

    def setup(self) -> None:
        """Wraps the loaded model: from here on the resident parameters are this strategy's."""
        ...

    def forward_begin(self) -> None: ...

    def forward_before(self, unit: int) -> None:
        """Before the unit's forward, and before its recomputation in backward under checkpointing too."""
        ...

    def forward_after(self, unit: int) -> None: ...

    def forward_end(self) -> None: ...

    def backward_begin(self) -> None: ...

    def backward_before(self, unit: int) -> None: ...

    def backward_after(self, unit: int, grads: Sequence[Grad]) -> None:
        """All gradients of the unit are there, in the order in which they were made."""
        ...

    def backward_end(self) -> None: ...

    def holds_gradients(self) -> bool:
        """Whether gradients of an earlier micro-batch are stored per parameter, so that a block's new gradient
        is added to the old one at once and freed."""
        ...

    def keeps_inputs(self, unit: int) -> bool:
        """Whether, under reentrant checkpointing, the recomputed input of the unit and its gradient stay until
        backward_end, because a hook on them refers to them."""
        ...

    def optimizer_parameters(self) -> Sequence[UnitParameter]:
        """What the optimizer of this rank steps on the GPU: local shards, each with its own numel; none where the
        step runs on the host."""
        ...

    def step_begin(self) -> None:
        """What comes before the optimizer's step: gradients in the type of the masters (ZeRO); mostly nothing."""
        ...

    def step_end(self) -> None:
        """What comes after it."""
        ...

    def zero_grad(self) -> None:
        """Frees stored gradients (set_to_none=True)."""
        ...
