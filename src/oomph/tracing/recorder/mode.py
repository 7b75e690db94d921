"""The dispatch mode: every operator of the traced program passes here.

An operator on real CPU tensors runs for real. One that a fake tensor or a CUDA device takes part in goes to
FakeTensorMode, which makes results without data; the memory that the real kernel would have taken is taken from the
simulated allocator.

`make_mode` builds the class when it is first wanted, because its base class is torch's.
"""

from __future__ import annotations

import sys
import threading
from functools import cache
from typing import Any

from oomph.tracing.recorder import accumulate, dynamic, truths
from oomph.tracing.recorder.blocks import UNTOLD
from oomph.tracing.recorder.categories import GRADIENTS
from oomph.tracing.recorder.fakes import Fakes
from oomph.tracing.recorder.kernels import Kernels
from oomph.tracing.recorder.operators import Operator
from oomph.tracing.recorder.recorder import TICK, Recorder
from oomph.tracing.recorder.values import Values, forget, value_of


@cache
def _mode_class() -> Any:
    import torch
    from torch._subclasses.fake_tensor import FakeTensor
    from torch.utils._python_dispatch import TorchDispatchMode

    plain = (FakeTensor, torch.Tensor, torch.nn.Parameter, getattr(torch.nn, "Buffer", torch.nn.Parameter))
    prim_device = torch.ops.prim.device.default
    detach = torch.ops.aten.detach.default
    inference = torch.is_inference_mode_enabled
    is_pinned = torch.ops.aten.is_pinned.default
    get_mode = torch._C._get_dispatch_mode  # noqa: SLF001 - what FakeTensorMode itself asks
    fake_key = torch._C._TorchDispatchModeKey.FAKE  # noqa: SLF001
    indexing = dynamic.indexing()

    class RecorderMode(TorchDispatchMode):
        """Pushed for the whole trace. `fake_mode` is never on torch's stack of modes: real CPU work stays real."""

        def __init__(self, recorder: Recorder, fake_mode: Any) -> None:
            super().__init__()
            self.recorder = recorder
            self.fake_mode = fake_mode
            self.fakes = Fakes(fake_mode)
            self.kernels = Kernels(recorder)
            self.values = Values(FakeTensor)
            self.operators: dict[Any, Operator] = {}
            self.dynamic = dynamic.handlers()
            self.main = threading.get_ident()
            self.lock = threading.RLock()
            self.in_backward = 0

        def __torch_dispatch__(
            self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
        ) -> Any:
            if func is prim_device:
                first = args[0]
                return first.fake_device if type(first) is FakeTensor else func(*args)
            kwargs = kwargs or {}
            fake = False
            for one in types:
                if one is FakeTensor:
                    fake = True
                elif one not in plain:
                    if not issubclass(one, FakeTensor):
                        return NotImplemented
                    fake = True
            if not fake:
                device = kwargs.get("device")
                if device is None or torch.device(device).type != "cuda":
                    if func is is_pinned and accumulate.from_autograd(sys._getframe().f_back):  # noqa: SLF001
                        return True  # DDP's reducer insists on it for a tensor that it has just made
                    return func(*args, **kwargs)
            device = kwargs.get("device")
            if device is not None and device.type == "cuda" and device.index is None:
                # "cuda" is the current device; a fake copy would take the first one.
                kwargs = {**kwargs, "device": torch.device("cuda", torch.cuda.current_device())}
            # Fake kernels and the simulated allocator know of one thread at a time; scripts have several.
            with self.lock:
                recorder = self.recorder
                if recorder.suspensions:
                    if get_mode(fake_key) is not None:
                        # Code that fakes by itself (DTensor's sharding propagation): its mode is next.
                        return func(*args, **kwargs)
                    return self.fakes.long_way(func, types, args, kwargs)
                operator = self.operators.get(func)
                if operator is None:
                    operator = self.operators[func] = self.kernels.operator(func)
                if operator.composite and inference():
                    with self:
                        result = func.decompose(*args, **kwargs)
                    if result is not NotImplemented:
                        return result
                recorder.operators += 1
                if not recorder.operators % TICK:
                    recorder.tick()
                special = self.dynamic.get(operator.name)
                if special is not None:
                    answer = special(self, func, operator, types, args, kwargs)
                    if answer is not NotImplemented:
                        return answer
                if (self.in_backward or threading.get_ident() != self.main) and accumulate.candidate(
                    operator.name
                ):
                    if accumulate.from_autograd(sys._getframe().f_back):  # noqa: SLF001
                        instead = accumulate.in_place(operator.name, operator.full, args, kwargs, FakeTensor)
                        if instead is not None:
                            return self.instead(instead, types, args, kwargs)
                return self.run(func, operator, types, args, kwargs)

        def run(
            self, func: Any, operator: Operator, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
        ) -> Any:
            """The operator with everything that it does to memory and to values."""
            real = self.values.before(operator.name, args, kwargs)
            if operator.view:
                if self.in_backward and func is detach:
                    self._detached(args[0])
                out = self.fakes.run(func, types, args, kwargs)
            else:
                out = self.kernels.run(self, func, operator, types, args, kwargs)
            if real is None or not self.values.after(func, real, out):
                if operator.mutates >= 0:
                    self._written(operator, args, kwargs)
                elif operator.view or operator.name in truths.NAMES:
                    if truths.after(operator.name, operator.view, args, out):
                        self.recorder.assume(dynamic.NUMBERS_ARE_ONE)
            if operator.inplace and operator.mutates == 0 and type(args[0]) is torch.Tensor:
                # A real CPU tensor that fake ones were written into: the caller's own tensor is the result.
                return args[0]
            return out

        def instead(self, func: Any, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            """Runs the in-place twin of an operator; its first argument is the result."""
            operator = self.operators.get(func)
            if operator is None:
                operator = self.operators[func] = self.kernels.operator(func)
            self.run(func, operator, types, args, kwargs)
            return args[0]

        def fake(self, func: Any, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            """What the fake kernel returns; nothing is recorded."""
            if func in indexing:
                args = dynamic.with_indices_there(self.fakes, args)
            return self.fakes.run(func, types, args, kwargs)

        def _detached(self, tensor: Any) -> None:
            """Autograd's accumulation keeps a detached gradient as `.grad`."""
            node = torch._C._current_autograd_node()  # noqa: SLF001
            if node is not None and node.name().endswith("AccumulateGrad"):
                block = self.recorder.storages.block_of(tensor)
                if block is not None and block.category == UNTOLD:
                    block.category = GRADIENTS

        def _written(self, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            for name in operator.mutates_names:
                place = operator.places.get(name, -1)
                one = args[place] if 0 <= place < len(args) else kwargs.get(name)
                if isinstance(one, FakeTensor):
                    if value_of(one) is not None or truths.told(one):
                        forget(one)
                elif isinstance(one, (list, tuple)):
                    for tensor in one:
                        if isinstance(tensor, FakeTensor) and (
                            value_of(tensor) is not None or truths.told(tensor)
                        ):
                            forget(tensor)

    return RecorderMode


def make_mode(recorder: Recorder, fake_mode: Any) -> Any:
    """A mode for this recorder; pushed by `with`."""
    return _mode_class()(recorder, fake_mode)
