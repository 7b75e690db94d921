"""PEFT's DoRA: the layer's own result and LoRA's, weighed by a trained magnitude over the norm of the merged weight.

Source: peft/tuners/lora/dora.py (DoraLinearLayer: get_lora_weight, get_weight_norm, forward) and variants.py
(DoraLinearVariant.forward) of 0.21. Before 0.14 the layer's product was always made again; before 0.12 the merged
weight was a product of the adapters' weights themselves (layer.py, _apply_dora), since then of an identity matrix with
them. The norm is a constant for autograd: what it was made from lives until the layer returns, no longer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

from oomph.memory.categories import Category
from oomph.predict.engine.adapters import PeftAdapters
from oomph.predict.engine.heap import ITEM, Shape, Storage, Tensor, contiguous, numel, promote
from oomph.predict.engine.play import apply, look
from oomph.predict.engine.scope import Scope

_LOW = "bf16"


class DoraAge(Enum):
    """Which of PEFT's codes runs: before 0.12, before 0.14, or the current one."""

    PRODUCT = "product of the adapters' weights"
    IDENTITY = "their forward on an identity matrix"
    CURRENT = "the same, and the layer's own result is used where there is no dropout"


@dataclass
class DoraAdapters(PeftAdapters):
    """Adapters with a magnitude. `age`: whose code."""

    age: DoraAge = DoraAge.CURRENT
    _biased: set[str] = field(default_factory=set)

    def _product(
        self, scope: Scope, weight: str, inputs: Sequence[Tensor | None], result: int, made: Tensor
    ) -> None:
        if len(inputs) > 2:
            self._biased.add(weight.removesuffix(".weight"))
        super()._product(scope, weight, inputs, result, made)

    def _adapt(self, scope: Scope, module: str, source: Tensor, result: int) -> None:
        heap = scope.heap
        base, x, held = self._begin(scope, module, source, result)
        if self.dropout > 0:
            x = apply(scope, "aten.native_dropout", [x], x.shape, x.dtype, extra=[(x.shape, "bool")])
            held.append(x)
        outputs = base.shape[-1]
        products: list[Tensor] = []
        if self.age is DoraAge.IDENTITY:
            products.append(self._lora(scope, module, x, outputs))
        scale, weight, local = self._scale(scope, module, x, outputs)
        if self.age is DoraAge.CURRENT:
            products.append(self._lora(scope, module, x, outputs))
        own = self._own(scope, module, x, base, weight)
        less = apply(scope, "aten.sub", [scale], scale.shape, scale.dtype)
        first = apply(scope, "aten.mul", [less, own], own.shape, promote(less.dtype, own.dtype))
        heap.release(less.storage)
        if self.age is not DoraAge.CURRENT or own is not base:
            products.append(own)
        if self.age is DoraAge.PRODUCT:
            # A temporary of the expression, like the product of the layer itself.
            heap.release(products.pop().storage)
            products.append(self._lora(scope, module, x, outputs))
        added = self._weighed(scope, scale, products[0], first)
        for each in (*products, scale, *local):
            heap.release(each.storage)
        self._end(scope, base, added, held, result)

    def _weighed(self, scope: Scope, scale: Tensor, narrow: Tensor, first: Tensor) -> Tensor:
        """`first + scale * narrow * scaling`"""
        heap = scope.heap
        dtype = promote(scale.dtype, narrow.dtype)
        weighed = apply(scope, "aten.mul", [scale, narrow], narrow.shape, dtype)
        scaled = apply(scope, "aten.mul", [weighed], narrow.shape, dtype)
        heap.release(weighed.storage)
        added = apply(scope, "aten.add", [first, scaled], first.shape, promote(first.dtype, dtype))
        heap.release(first.storage)
        heap.release(scaled.storage)
        return added

    def _lora(self, scope: Scope, module: str, x: Tensor, outputs: int) -> Tensor:
        first = self._linear(scope, f"{module}.lora_A", x, self.rank)
        second = self._linear(scope, f"{module}.lora_B", first, outputs)
        scope.heap.release(first.storage)
        return second

    def _scale(
        self, scope: Scope, module: str, x: Tensor, outputs: int
    ) -> tuple[Tensor, Tensor, list[Tensor]]:
        """magnitude / norm as a row; the layer's weight in the input's dtype; what lives until the layer returns."""
        heap = scope.heap
        inputs = x.shape[-1]
        merged, local = self._merged(scope, module, x.dtype, inputs, outputs)
        weight = self._plain(scope, module, x.dtype, (outputs, inputs))
        local.append(weight)
        dtype = promote(weight.dtype, merged.dtype)
        scaled = self._temporary(scope, merged.shape, merged.dtype, "scaled weight of the adapters")
        summed = self._temporary(scope, merged.shape, dtype, "merged weight")
        heap.release(scaled.storage)
        norm = heap.new((outputs,), dtype, "norms of merged weights")
        heap.release(summed.storage)
        magnitude = Tensor(Storage(-1, "magnitude"), (outputs,), (1,), self.dtype)
        magnitude.parameter, magnitude.requires = (
            f"{module}.lora_magnitude_vector",
            scope.graph is not None,
        )
        quotient = apply(scope, "aten.div", [magnitude, norm], (outputs,), promote(self.dtype, dtype))
        row = look(scope, "aten.view", quotient, (1, outputs), contiguous((1, outputs)))
        for each in (quotient, norm):
            heap.release(each.storage)
        return row, weight, local

    def _merged(
        self, scope: Scope, module: str, dtype: str, inputs: int, outputs: int
    ) -> tuple[Tensor, list[Tensor]]:
        """B times A as a weight of the input's dtype, and what its graph and names hold until the layer returns."""
        heap = scope.heap
        shapes = ((self.rank, inputs), (outputs, self.rank))
        for letter, shape in zip("AB", shapes, strict=True):
            # autocast keeps a trained weight's cast, which the layer's own products take
            heap.release(self._weight(scope, f"{module}.lora_{letter}", shape).storage)
        graph, scope.graph = scope.graph, None
        local: list[Tensor] = []
        if self.age is DoraAge.PRODUCT:
            low = scope.autocast and self.dtype == "fp32"
            made = self._temporary(scope, (outputs, inputs), _LOW if low else self.dtype, "B times A")
            local.append(made)
            scope.graph = graph
            return made, local
        wide = self._temporary(
            scope,
            (inputs, inputs),
            self.dtype if self.age is DoraAge.CURRENT else dtype,
            "identity matrix",
        )
        eye = wide
        if scope.autocast and eye.dtype == "fp32":
            eye = self._temporary(scope, eye.shape, _LOW, "identity matrix")
        recording = graph is not None
        first = self._linear(scope, f"{module}.lora_A", eye, self.rank)
        if eye is not wide:
            self._keep(scope, recording, eye, local)
        made = self._linear(scope, f"{module}.lora_B", first, outputs)
        self._keep(scope, recording, first, local)
        # Of an older code the identity is a name of the forward itself.
        self._keep(scope, self.age is DoraAge.IDENTITY or (recording and eye is wide), wide, local)
        if made.dtype != dtype and self.age is DoraAge.CURRENT:
            cast = self._temporary(scope, made.shape, dtype, "B times A")
            heap.release(made.storage)
            made = cast
        local.append(made)
        scope.graph = graph
        return made, local

    @staticmethod
    def _keep(scope: Scope, kept: bool, tensor: Tensor, local: list[Tensor]) -> None:
        """Until the layer returns (its name, or a graph that dies then), or let go now."""
        if kept:
            local.append(tensor)
        else:
            scope.heap.release(tensor.storage)

    def _plain(self, scope: Scope, module: str, dtype: str, shape: Shape) -> Tensor:
        """The layer's weight: dequantised where it is quantised, and cast where its dtype is another."""
        stored = self._stored(scope, f"{module}.weight")
        weight = Tensor(Storage(-1, "weight"), shape, contiguous(shape), stored)
        if self.quantized(module):
            weight = self._temporary(scope, shape, stored, "dequantised weight")
        if weight.dtype != dtype:
            cast = self._temporary(scope, shape, dtype, "weight cast for its norm")
            scope.heap.release(weight.storage)
            weight = cast
        return weight

    @staticmethod
    def _stored(scope: Scope, name: str) -> str:
        """The dtype of a parameter's values."""
        program = scope.program
        for storage, _, _, dtype in program.tensors:
            kind, _, *named = program.storages[storage]
            if kind == "parameter" and named[0] == name:
                return str(dtype)
        return _LOW

    def _own(self, scope: Scope, module: str, x: Tensor, base: Tensor, weight: Tensor) -> Tensor:
        """The layer's result without its bias: as it is, or made once more of what dropout left of the input."""
        heap = scope.heap
        if self.age is DoraAge.CURRENT and self.dropout == 0:
            if module not in self._biased:
                return base
            return apply(scope, "aten.sub", [base], base.shape, base.dtype)
        source, matrix = x, weight
        casts: list[Tensor] = []
        if scope.autocast and x.dtype == "fp32":
            source = apply(scope, "aten._to_copy", [x], x.shape, _LOW)
            casts.append(source)
        if scope.autocast and weight.dtype == "fp32":
            matrix = self._temporary(scope, weight.shape, _LOW, "weight cast by autocast")
            casts.append(matrix)
        rows, outputs = numel(source.shape) // source.shape[-1], base.shape[-1]
        flat = look(
            scope, "aten.view", source, (rows, source.shape[-1]), contiguous((rows, source.shape[-1]))
        )
        turned = heap.view(matrix, (matrix.shape[1], matrix.shape[0]), (1, matrix.shape[1]))
        made = apply(scope, "aten.mm", [flat, turned], (rows, outputs), source.dtype)
        result = look(scope, "aten._unsafe_view", made, base.shape, contiguous(base.shape))
        for each in (flat, turned, made, *casts):
            heap.release(each.storage)
        return result

    @staticmethod
    def _temporary(scope: Scope, shape: Shape, dtype: str, name: str) -> Tensor:
        storage = scope.heap.allocate(numel(shape) * ITEM[dtype], name, Category.TEMPORARIES)
        return Tensor(storage, shape, contiguous(shape), dtype)
