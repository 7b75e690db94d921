"""No sharding: every parameter and gradient is whole on this rank."""

from __future__ import annotations

from collections.abc import Sequence

from oomph.memory.categories import Category
from oomph.predict.sharding.base import Grad, Unit, UnitParameter
from oomph.predict.sharding.shards import alloc_all, free_all, free_grads, trainable
from oomph.predict.sink import Sink


class Unsharded:
    """One GPU, or tensor and pipeline parallelism alone: what a rank has is its own.

    Parameters: numel * bytes of each, rounded up to 512. Gradients: autograd's own tensors, stored as they are
    made (the first gradient is taken over without a copy, torch/csrc/autograd/functions/accumulate_grad.h),
    until zero_grad."""

    def __init__(self, units: Sequence[Unit], sink: Sink) -> None:
        self._units = units
        self._sink = sink
        self._grads: list[int] = []
        self._held = False
        self._trains = tuple(trainable(units))

    def setup(self) -> None:
        """Parameters on the GPU."""
        self._resident()

    def forward_begin(self) -> None:
        """Nothing."""

    def forward_before(self, unit: int) -> None:
        """Nothing."""

    def forward_after(self, unit: int) -> None:
        """Nothing."""

    def forward_end(self) -> None:
        """Nothing."""

    def backward_begin(self) -> None:
        """Nothing."""

    def backward_before(self, unit: int) -> None:
        """Nothing."""

    def backward_after(self, unit: int, grads: Sequence[Grad]) -> None:  # noqa: ARG002 - as every strategy
        """Gradients stay; those that are added to stored ones are freed."""
        if self._held:
            free_grads(self._sink, grads)
        else:
            self._grads.extend(grad.handle for grad in grads)

    def backward_end(self) -> None:
        """From now on gradients are stored."""
        self._held = True

    def holds_gradients(self) -> bool:
        """True from the second micro-batch of a step on."""
        return self._held

    def keeps_inputs(self, unit: int) -> bool:  # noqa: ARG002 - as every strategy
        """Never."""
        return False

    def optimizer_parameters(self) -> Sequence[UnitParameter]:
        """All parameters that train, whole."""
        return self._trains

    def step_begin(self) -> None:
        """Nothing."""

    def step_end(self) -> None:
        """Nothing."""

    def zero_grad(self) -> None:
        """Frees the gradients."""
        free_all(self._sink, self._grads)
        self._grads = []
        self._held = False

    def _resident(self) -> None:
        for unit in self._units:
            for trains, name in ((True, "parameters"), (False, "frozen parameters")):
                sizes = [each.resident_bytes for each in unit.parameters if each.trainable is trains]
                if sizes:
                    alloc_all(self._sink, sizes, Category.PARAMETERS, name)
