"""PEFT's LoRA beside a linear layer of a program that was recorded without adapters.

Source: peft/tuners/lora/layer.py (Linear.forward) and bnb.py (Linear4bit.forward): the layer's own result, the input
cast to the adapters' dtype (Linear4bit: unless autocast is on), dropout, the two products, the scaling, the sum, and
the cast back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from oomph.predict.engine.heap import Storage, Tensor, contiguous, numel
from oomph.predict.engine.play import apply, look
from oomph.predict.engine.scope import Scope

#: Data types of autocast's products.
_LOW = "bf16"


@dataclass
class PeftAdapters:
    """`adapts(module)`: whether a module (a parameter's name without `.weight`) has adapters. `casts`: the input is
    cast to the adapters' dtype where autocast is off. `quantized(module)`: it is a Linear4bit or Linear8bitLt."""

    rank: int
    dtype: str
    dropout: float
    adapts: Callable[[str], bool]
    quantized: Callable[[str], bool]
    casts: bool = True
    #: Linear4bit's result is cloned before adapters are added to it.
    clones: bool = True
    _inputs: dict[int, Tensor] = field(default_factory=dict)
    _casts: dict[int, Tensor] = field(default_factory=dict)
    _waiting: dict[int, tuple[str, Tensor]] = field(default_factory=dict)

    def see(
        self, scope: Scope, packet: str, weight: str | None, inputs: Sequence[Tensor | None], result: int
    ) -> None:
        """Remembers where inputs of products come from; adds the adapters once the layer's result is there."""
        made = scope.tensors.get(result)
        source = inputs[0] if inputs else None
        if made is None or source is None:
            return
        if weight is not None:
            self._product(scope, weight, inputs, result, made)
        elif packet in ("aten.view", "aten._unsafe_view", "aten.reshape"):
            waiting = self._waiting.pop(id(source), None)
            if waiting is not None:
                self._adapt(scope, waiting[0], waiting[1], result)
            else:
                self._inputs[id(made)] = source
        elif packet == "aten._to_copy" and scope.autocast:
            self._casts[id(made)] = source

    def comes_from(self, made: Tensor, source: Tensor) -> None:
        """`made` is a cast of `source`, which is what the adapted layer was given."""
        self._casts[id(made)] = source

    def _product(
        self, scope: Scope, weight: str, inputs: Sequence[Tensor | None], result: int, made: Tensor
    ) -> None:
        module = weight.removesuffix(".weight")
        left = inputs[-2]
        if not self.adapts(module) or left is None:
            return
        seen = self._inputs.get(id(left), left)
        origin = self._casts.get(id(seen), seen)
        if seen is left:
            self._adapt(scope, module, origin, result)
        else:
            self._waiting[id(made)] = (module, origin)

    def _adapt(self, scope: Scope, module: str, source: Tensor, result: int) -> None:
        heap = scope.heap
        base, x, held = self._begin(scope, module, source, result)
        narrow = self._two_products(scope, module, x, base.shape[-1])
        scaled = apply(scope, "aten.mul", [narrow], narrow.shape, narrow.dtype)
        heap.release(narrow.storage)
        if self.quantized(module) and scaled.dtype != base.dtype and not scope.autocast:
            cast = apply(scope, "aten._to_copy", [scaled], scaled.shape, base.dtype)
            heap.release(scaled.storage)
            scaled = cast
        self._end(scope, base, scaled, held, result)

    def _begin(
        self, scope: Scope, module: str, source: Tensor, result: int
    ) -> tuple[Tensor, Tensor, list[Tensor]]:
        """The layer's own result, the adapters' input, and what the layer holds until it returns."""
        base, x = scope.tensors[result], source
        quantized = self.quantized(module)
        if quantized and self.clones:
            copied = apply(scope, "aten.clone", [base], base.shape, base.dtype)
            scope.heap.release(base.storage)
            base = copied
        held: list[Tensor] = []
        if self.casts and x.dtype != self.dtype and not (quantized and scope.autocast):
            x = apply(scope, "aten._to_copy", [x], x.shape, self.dtype)
            held.append(x)
        return base, x, held

    def _end(self, scope: Scope, base: Tensor, added: Tensor, held: list[Tensor], result: int) -> None:
        """The sum of the layer's own result and the adapters', in the former's dtype."""
        heap = scope.heap
        wide = "fp32" if "fp32" in (base.dtype, added.dtype) else base.dtype
        total = apply(scope, "aten.add", [base, added], base.shape, wide)
        heap.release(base.storage)
        heap.release(added.storage)
        if total.dtype != base.dtype:
            cast = apply(scope, "aten._to_copy", [total], total.shape, base.dtype)
            heap.release(total.storage)
            total = cast
        for each in held:
            heap.release(each.storage)
        scope.tensors[result] = total
        scope.storages[scope.program.tensors[result][0]] = total.storage

    def _two_products(self, scope: Scope, module: str, x: Tensor, outputs: int) -> Tensor:
        heap = scope.heap
        dropped = x
        if self.dropout > 0:
            dropped = apply(scope, "aten.native_dropout", [x], x.shape, x.dtype, extra=[(x.shape, "bool")])
        first = self._linear(scope, f"{module}.lora_A", dropped, self.rank)
        if dropped is not x:
            heap.release(dropped.storage)
        second = self._linear(scope, f"{module}.lora_B", first, outputs)
        heap.release(first.storage)
        return second

    def _linear(self, scope: Scope, name: str, x: Tensor, outputs: int) -> Tensor:
        heap = scope.heap
        source, cast = x, None
        weight = self._weight(scope, name, (outputs, x.shape[-1]))
        if scope.autocast and x.dtype == "fp32":
            source = cast = apply(scope, "aten._to_copy", [x], x.shape, _LOW)
        rows = numel(x.shape) // x.shape[-1]
        flat = look(scope, "aten.view", source, (rows, x.shape[-1]), contiguous((rows, x.shape[-1])))
        turned = look(scope, "aten.t", weight, (weight.shape[1], weight.shape[0]), (1, weight.shape[1]))
        made = apply(scope, "aten.mm", [flat, turned], (rows, outputs), weight.dtype)
        for each in (flat, turned, *((cast,) if cast is not None else ())):
            heap.release(each.storage)
        shape = (*x.shape[:-1], outputs)
        result = look(scope, "aten._unsafe_view", made, shape, contiguous(shape))
        heap.release(made.storage)
        heap.release(weight.storage)
        return result

    def _weight(self, scope: Scope, name: str, shape: tuple[int, int]) -> Tensor:
        """The adapter's weight, as the product takes it: cast by autocast, once."""
        leaf = Tensor(Storage(-1, name), shape, contiguous(shape), self.dtype)
        leaf.parameter, leaf.requires = name, scope.graph is not None
        if not (scope.autocast and self.dtype == "fp32"):
            return leaf
        known = scope.cached.get(name)
        if known is None:
            known = scope.cached[name] = apply(scope, "aten._to_copy", [leaf], shape, _LOW)
            known.parameter = name
        known.storage.refs += 1
        return known
