"""The hooks of one root model: where its forward begins and ends, on what batch, training or evaluating."""

from __future__ import annotations

import contextlib
import sys
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from oomph.phases import Phase
from oomph.recording.batch import Signature

if TYPE_CHECKING:
    from types import FrameType

    from oomph.recording.recorder import Recording

_FIRST_STEPS, _MOST_RESULTS = 3, 64


def frames() -> Iterator[FrameType]:
    """The frames of this thread, innermost first."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - Python's way to walk a stack
    while frame is not None:
        yield frame
        frame = frame.f_back


def tensor_bytes(value: Any, depth: int = 0) -> int:
    """Bytes of the tensors in what a forward returned."""
    size = getattr(value, "nbytes", None)
    if isinstance(size, int):
        return size
    if depth > 2:
        return 0
    if isinstance(value, Mapping):
        value = tuple(value.values())
    if isinstance(value, (list, tuple)):
        return sum(tensor_bytes(one, depth + 1) for one in value[:_MOST_RESULTS])
    return 0


class Hook:
    """A hook as it hangs on a module. A copy of the module, or a file that it is pickled to, has a function of the
    standard library in its place that does nothing: copies are not recorded, and files need no oomph to be read."""

    def __init__(self, function: Callable[..., None]) -> None:
        self._function = function

    def __call__(self, *args: Any) -> None:
        self._function(*args)

    def __reduce__(self) -> tuple[Any, ...]:
        return getattr, (contextlib.nullcontext(), "__exit__")


class Model:
    """The hooks of one root model."""

    def __init__(self, recording: Recording, module: Any) -> None:
        import torch

        self._torch = torch
        self._recording = recording
        self._signature = Signature(module)
        self._opened: list[Any] = []
        self._handled: list[int] = []  # not the exceptions: their frames hold tensors
        self._depth = 0
        self._trained = False

    @property
    def busy(self) -> bool:
        """Whether its forward is going on."""
        return self._depth > 0

    def before(self, module: Any, args: Any, kwargs: Any) -> None:
        """The model's forward begins."""
        if self._torch.compiler.is_compiling():
            return
        self._recording.safely(self._begins, module, args, kwargs)

    def _begins(self, module: Any, args: Any, kwargs: Any) -> None:
        self._recording.hooks.optimizers_end()
        self._depth += 1
        if self._depth > 1:
            # Calls whose end was never heard of: Ctrl-C is no Exception to PyTorch's hooks.
            self._depth = max(min(self._depth, self._calls_on_stack(module)), 1)
            del self._opened[self._depth - 1 :], self._handled[self._depth - 1 :]
        if self._depth > 1:
            self._opened.append(None)  # a model that calls itself
        else:
            self._opened.append(self._recording.enter(self._phase(module), by=id(module)))
        self._handled.append(id(sys.exc_info()[1]))
        if self._torch._C._get_tracing_state() is None:  # noqa: SLF001 - torch.jit.trace would take sizes for constants
            self._recording.phases.batch(self._signature.shapes(args, kwargs))

    def _calls_on_stack(self, module: Any) -> int:
        code = self._torch.nn.Module._call_impl.__code__  # noqa: SLF001 - what PyTorch calls every module by
        return sum(frame.f_code is code and frame.f_locals.get("self") is module for frame in frames())

    def _phase(self, module: Any) -> Phase:
        """Evaluation is a forward without gradients, or in evaluation mode of a model that was trained before."""
        hooks = self._recording.hooks
        hooks.evaluates_with_gradients = False
        if not self._torch.is_grad_enabled():
            return Phase.EVAL
        if module.training:
            self._trained = True
            return Phase.FORWARD
        hooks.evaluates_with_gradients = self._trained
        return Phase.EVAL if self._trained else Phase.FORWARD

    def after(self, _module: Any, _args: Any, result: Any) -> None:
        """The model's forward ends; also when it raises."""
        if self._torch.compiler.is_compiling():
            return
        forecast = self._recording.forecast
        if forecast is not None and self._recording.phases.step < _FIRST_STEPS:
            forecast.result_bytes = max(forecast.result_bytes, tensor_bytes(result))
        error = sys.exc_info()[1]
        if self._handled and id(error) == self._handled[-1]:
            error = None  # an exception that is being handled outside, and did not come from here
        self.over(error)

    def over(self, error: BaseException | None) -> None:
        """The call is over."""
        self._recording.safely(self._ends, error)

    def _ends(self, error: BaseException | None) -> None:
        if not self._opened:
            return
        self._depth -= 1
        self._handled.pop()
        self._recording.leave(self._opened.pop(), error)

    def watch_compiled_call(self, watched: Any, patches: Any) -> None:
        """The compiled call that `model.compile()` puts into the module."""
        inner = vars(watched).get("_compiled_call_impl")
        if inner is None or getattr(inner, "oomph", False):
            return
        recording, there = self._recording, weakref.ref(watched)
        del watched

        def call(*args: Any, **kwargs: Any) -> Any:
            module = there()
            if module is None or not recording.active or self._torch.compiler.is_compiling():
                return inner(*args, **kwargs)
            self.before(module, args, kwargs)
            try:
                result = inner(*args, **kwargs)
            except BaseException as error:
                self.over(error)
                raise
            self.over(None)
            return result

        call.oomph = True  # type: ignore[attr-defined]

        def undo() -> None:
            module = there()
            if module is not None and vars(module).get("_compiled_call_impl") is call:
                object.__setattr__(module, "_compiled_call_impl", inner)

        object.__setattr__(there(), "_compiled_call_impl", call)
        patches.when_undone(undo)
