"""What 4-bit layers under autocast make fp32 in denoisers, beside engine/widening.py: diffusers' attention gives what
it returns the type of its query (attention_processor.py, `hidden_states.to(query.dtype)`). An ordinary layer's is bf16,
so that nothing is recorded of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from oomph.predict.engine.heap import Storage, Tensor
from oomph.predict.engine.play import apply
from oomph.predict.engine.widening import Widening

if TYPE_CHECKING:
    from oomph.predict.engine.scope import Scope

_ATTENTION = "aten._scaled_dot_product"


class DenoiserWidening(Widening):
    """Follows fp32 through one scope."""

    def __init__(self) -> None:
        super().__init__()
        self._attended = False

    def before(
        self,
        scope: Scope,
        packet: str,
        numbers: Sequence[int | None],
        inputs: list[Tensor | None],
        results: Sequence[Any],
    ) -> list[Storage]:
        """As its base; a query in fp32 is remembered."""
        self._attended = packet.startswith(_ATTENTION) and numbers[0] in self.wide
        return super().before(scope, packet, numbers, inputs, results)

    def after(
        self,
        scope: Scope,
        weight: str | None,
        numbers: Sequence[int | None],
        results: Sequence[Any],
    ) -> None:
        """As its base; what attention gives is cast to what its query was."""
        super().after(scope, weight, numbers, results)
        if not self._attended:
            return
        number = results[0]
        made = scope.tensors[number]
        cast = apply(scope, "aten._to_copy", [made], made.shape, "fp32")
        scope.heap.release(made.storage)
        storage = scope.program.tensors[number][0]
        scope.tensors[number] = cast
        scope.storages[storage] = cast.storage
        scope.ids[id(cast.storage)] = storage
        self.wide.add(number)
