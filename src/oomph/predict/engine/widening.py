"""What is fp32 where bitsandbytes' layers run under autocast, although an ordinary layer's result would be bf16.

Linear4bit casts its input to the compute type and its result back to the input's (bitsandbytes/nn/modules.py,
`inp_dtype`). Under autocast a LayerNorm gives fp32, so that what follows is fp32 too: activations, the sums of the
residual stream, and what attention is given before it casts that itself. Norms that give their input's type (llama's)
change nothing, unless prepare_model_for_kbit_training has cast their weights. Programs were recorded with nn.Linear,
whose results are bf16.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from oomph.predict.engine.heap import Storage, Tensor

if TYPE_CHECKING:
    from oomph.predict.engine.scope import Scope

_CAST = "aten._to_copy"
_PRODUCTS = frozenset(("aten.mm", "aten.addmm", "aten.bmm", "aten.baddbmm"))
_ATTENTION = ("aten._scaled_dot_product", "flash_attn.")
_VIEWS = frozenset(
    f"aten.{name}" for name in ("view", "_unsafe_view", "reshape", "transpose", "t", "permute")
)
_LOW = ("bf16", "fp16")


class Widening:
    """Follows fp32 through one scope."""

    def __init__(self) -> None:
        #: Tensors of the program that are fp32 here; and those that autocast has made of fp32.
        self.wide: set[int] = set()
        self.cast: set[int] = set()
        #: Kept so that no other tensor takes their place: adapters know them by identity.
        self._narrowed: list[Tensor] = []

    def passes(
        self, scope: Scope, packet: str, numbers: Sequence[int | None], results: Sequence[Any]
    ) -> bool:
        """A cast of what is fp32 already to fp32: nothing is made."""
        if packet != _CAST or not numbers or numbers[0] not in self.wide:
            return False
        if scope.program.tensors[results[0]][3] != "fp32":
            self.cast.add(results[0])
            return False
        source = scope.tensor(numbers[0])
        source.storage.refs += 1
        scope.tensors[results[0]] = source
        scope.storages[scope.program.tensors[results[0]][0]] = source.storage
        return True

    def before(
        self,
        scope: Scope,
        packet: str,
        numbers: Sequence[int | None],
        inputs: list[Tensor | None],
        results: Sequence[Any],
    ) -> list[Storage]:
        """Marks the results; products and attention get casts of what is fp32, which are returned: they are the
        caller's to release when the operator has run."""
        dtypes = {each: scope.program.tensors[each][3] for each in results if each is not None}
        if packet == _CAST and inputs and inputs[0] is not None and inputs[0].dtype == "fp32":
            if not inputs[0].parameter and results and dtypes.get(results[0]) in _LOW:
                self.cast.add(results[0])
            return []
        if packet in _VIEWS and numbers and numbers[0] in self.cast:
            self.cast.update(dtypes)
        for number, each in zip(numbers, inputs, strict=True):
            if number is not None and each is not None and each.parameter and each.node is None:
                if scope.weights(each.parameter).wide:
                    self.wide.add(number)
        if self.wide.isdisjoint(each for each in numbers if each is not None):
            return []
        if packet not in _PRODUCTS and not packet.startswith(_ATTENTION):
            self.wide.update(each for each, dtype in dtypes.items() if dtype in _LOW)
            return []
        return self._narrow(scope, numbers, inputs)

    def _narrow(
        self, scope: Scope, numbers: Sequence[int | None], inputs: list[Tensor | None]
    ) -> list[Storage]:
        from oomph.predict.engine.play import apply

        held = []
        for place, (number, source) in enumerate(zip(numbers, inputs, strict=True)):
            if number not in self.wide or source is None:
                continue
            made = apply(scope, _CAST, [source], source.shape, "bf16")
            inputs[place] = made
            held.append(made.storage)
            self._narrowed.append(made)
            if scope.adapters is not None:
                scope.adapters.comes_from(made, source)
        return held

    def after(
        self,
        scope: Scope,
        weight: str | None,
        numbers: Sequence[int | None],
        results: Sequence[Any],
    ) -> None:
        """A 4-bit layer's result is cast to what its input was."""
        if weight is None or not scope.weights(weight).quantized or not results:
            return
        its = numbers[-2]
        if its not in self.wide and its not in self.cast:
            return
        from oomph.predict.engine.play import apply

        number = results[0]
        made = scope.tensors[number]
        cast = apply(scope, _CAST, [made], made.shape, "fp32")
        scope.heap.release(made.storage)
        scope.tensors[number] = cast
        scope.storages[scope.program.tensors[number][0]] = cast.storage
        scope.ids[id(cast.storage)] = scope.program.tensors[number][0]
        self.wide.add(number)
