"""Runs one fake kernel and takes the memory that the real one would have taken, in its order."""

from __future__ import annotations

import threading
from typing import Any

from oomph.memory.categories import CATEGORIES, Category
from oomph.tracing.errors import TraceRefused
from oomph.tracing.kernels import plain
from oomph.tracing.kernels.apply import plan
from oomph.tracing.kernels.rule import Call, Effect, Give, Keep, Take
from oomph.tracing.recorder.blocks import Block
from oomph.tracing.recorder.operators import Operator
from oomph.tracing.recorder.recorder import Recorder

_WORKSPACE = CATEGORIES.index(Category.WORKSPACE)


class Kernels:
    """Results and scratch memory of operators on a recorder's devices."""

    def __init__(self, recorder: Recorder) -> None:
        from torch._subclasses.fake_tensor import FakeTensor

        self.recorder = recorder
        self._fake = FakeTensor
        self._rules = recorder.rules.by_operator()
        self._storages = recorder.storages

    def operator(self, func: Any) -> Operator:
        """What is known of an operator."""
        packet = func._schema.name.replace("::", ".")  # noqa: SLF001 - the only way to the schema
        label = self.recorder.label_number(packet.removeprefix("aten."))
        return Operator(func, self._rules, label, plain.known(packet))

    def run(
        self,
        mode: Any,
        func: Any,
        operator: Operator,
        types: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        """The fake kernel's result, with its memory and the kernel's scratch taken around it."""
        effect = self._effect(func, operator, args, kwargs) if operator.rules else None
        if effect is None:
            out = mode.fake(func, types, args, kwargs)
            if type(out) is self._fake:
                self._result(out, operator)
            elif isinstance(out, (list, tuple)):
                for one in out:
                    if type(one) is self._fake:
                        self._result(one, operator)
            if not operator.known:
                self._unknown(operator, args, out)
            return out
        return self._with_effect(effect, mode, func, operator, types, args, kwargs)

    # -- results --------------------------------------------------------------------------------------------------

    def _result(self, tensor: Any, operator: Operator) -> None:
        """Takes memory for a result, unless it lies on memory that is known."""
        device = tensor.fake_device
        if device.type != "cuda":
            return
        try:
            storage = tensor.untyped_storage()
        except NotImplementedError:
            raise TraceRefused(
                f"Sparse tensors on the GPU (here of {operator.name}) cannot be traced: their size depends on values. "
                "nn.Embedding and nn.EmbeddingBag with sparse=False need more memory in backward, and can."
            ) from None
        if self._storages.known(storage):
            if operator.resizes:
                self.resized(storage)
            return
        size = storage.nbytes()
        if not size:
            self._storages.hold(storage, None)
            return
        recorder = self.recorder
        block = recorder.take(device.index or 0, size)
        block.operator = operator.label
        self._storages.hold(storage, block)
        for function in recorder.on_alloc:
            function(block, tensor, operator)

    def resized(self, storage: Any) -> None:
        """A known storage has another size now: a new block, and the old one goes, as in `resize_bytes_cuda`."""
        block = self._storages.held(storage)
        size = storage.nbytes()
        if (block.size if block is not None else 0) == size:
            return
        recorder = self.recorder
        last = self._storages.last(storage)
        device = last.device if last is not None else storage.device.index or 0
        new = recorder.take(device, size) if size else None
        if new is not None and last is not None:
            new.category, new.operator, new.label = last.category, last.operator, last.label
        old = self._storages.replace(storage, new)
        if old is not None:
            recorder.free(old)

    # -- scratch memory -------------------------------------------------------------------------------------------

    def _effect(
        self, func: Any, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> list[Effect] | None:
        device = self._device(args, kwargs)
        if device < 0:
            return None
        recorder = self.recorder
        call = Call(
            op=func,
            args=args,
            kwargs=kwargs,
            gpu=recorder.settings.gpu,
            torch=recorder.settings.torch,
            device=device,
            stream=recorder.current_stream(device),
            thread=threading.get_ident(),
            memory=recorder.kernel_memory,
        )
        effects = [effect for rule in operator.rules if (effect := rule.effect(call)) is not None]
        return effects or None

    def _device(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
        """The index of the device that the call runs on, -1 for the CPU."""
        for one in (*args, *kwargs.values()):
            first = one[0] if isinstance(one, (list, tuple)) and one else one
            if type(first) is self._fake and first.fake_device.type == "cuda":
                return first.fake_device.index or 0
        device = str(kwargs.get("device"))
        if device.startswith("cuda"):
            return int(device.partition(":")[2] or 0)
        return -1

    def _with_effect(
        self,
        effects: list[Effect],
        mode: Any,
        func: Any,
        operator: Operator,
        types: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        recorder = self.recorder
        device = self._device(args, kwargs)
        out = mode.fake(func, types, args, kwargs)
        outputs = [out] if type(out) is self._fake else list(out) if isinstance(out, (list, tuple)) else []
        taken: dict[str, Block] = {}
        effect = plan(effects, len(outputs))
        recorder.uncertain_bytes = max(recorder.uncertain_bytes, effect.uncertain_bytes)
        try:
            for step in effect.steps:
                if isinstance(step, Take):
                    if step.bytes:
                        taken[step.name] = self._scratch(device, step.bytes, operator)
                elif isinstance(step, Give):
                    block = taken.pop(step.name, None)
                    if block is not None:
                        recorder.free(block)
                elif isinstance(step, Keep):
                    block = self._scratch(device, step.bytes, operator)
                    block.category = _WORKSPACE
                    recorder.kept.append(block)
                elif step.index is not None:
                    if type(outputs[step.index]) is self._fake:
                        if step.bytes is not None:
                            outputs[step.index].untyped_storage().resize_(step.bytes)
                        self._result(outputs[step.index], operator)
        finally:
            for block in taken.values():
                recorder.free(block)
        return out

    def scratch(self, func: Any, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Takes and frees what the rules of an operator say, without its result."""
        effects = self._effect(func, operator, args, kwargs) if operator.rules else None
        device = self._device(args, kwargs)
        for effect in effects or ():
            taken = [
                self._scratch(device, step.bytes, operator) for step in effect.steps if isinstance(step, Take)
            ]
            for block in taken:
                self.recorder.free(block)

    def _scratch(self, device: int, size: int, operator: Operator) -> Block:
        block = self.recorder.take(device, size)
        block.operator = operator.label
        for function in self.recorder.on_alloc:
            function(block, None, operator)
        return block

    def _unknown(self, operator: Operator, args: tuple[Any, ...], out: Any) -> None:
        if self._device((*args, out), {}) < 0:
            return
        flat = [
            one for part in (*args, out) for one in (part if isinstance(part, (list, tuple)) else (part,))
        ]
        sizes = [one.numel() * one.element_size() for one in flat if type(one) is self._fake]
        self.recorder.unknown_operator(operator.full, max(sizes, default=0))
        # Of known kernels none takes more scratch memory than its arguments and results have together.
        self.recorder.uncertain_bytes = max(self.recorder.uncertain_bytes, sum(sizes))
