"""Phases without a change to the loop: hooks on the models, on autograd's engine and on optimizers.

Compiled models: hooks stay outside of the graph. A hook that is traced by torch.compile does nothing
(`torch.compiler.is_compiling()` is a constant there); the compiled module is watched where it is called instead.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from oomph.phases import Phase
from oomph.recording.models import Hook, Model, frames
from oomph.recording.steps import Steps

if TYPE_CHECKING:
    from oomph.recording.recorder import Recording


class Hooks:
    """All hooks of one recording."""

    def __init__(self, recording: Recording) -> None:
        import torch

        self._torch = torch
        self._recording = recording
        self._patches = recording.patches
        # Weak: a trainer that wraps its model anew for each try must not find the old one alive.
        self._models: weakref.WeakKeyDictionary[Any, Model] = weakref.WeakKeyDictionary()
        self.steps = Steps()
        self._optimizer_depth = 0
        self._backward_depth = 0
        self._step_in_backward = False
        #: The last forward was in evaluation mode, with gradients.
        self.evaluates_with_gradients = False

    def install(self) -> None:
        """Watches autograd and optimizers, whatever models there are."""
        self._autograd()
        self._optimizers()
        self._patches.when_there("torch._dynamo.eval_frame", self._compiled)
        self._patches.wrap(self._torch.nn.Module, "compile", self._compiles)

    def watch(self, model: Any) -> None:
        """Watches a root model; a second time costs nothing."""
        if model in self._models:
            return
        one = self._models[model] = Model(self._recording, model)
        handles = (
            model.register_forward_pre_hook(Hook(one.before), prepend=True, with_kwargs=True),
            model.register_forward_hook(Hook(one.after), always_call=True),
        )
        for handle in handles:
            self._patches.when_undone(handle.remove)
        one.watch_compiled_call(model, self._patches)

    def inside(self, module: Any) -> bool:
        """Whether a module that is called now is watched already, or is part of what a watched one or autograd does."""
        if self._backward_depth or module in self._models:
            return True
        return any(one.busy for one in tuple(self._models.values()))

    def called(self, module: Any, args: Any) -> None:
        """The call in the middle of which a module came to be watched; what ends it is told by its hooks."""
        self._models[module].before(module, args, {})

    def forget(self) -> None:
        """The end: whoever holds the recording does not hold the models."""
        self._models = weakref.WeakKeyDictionary()
        self.steps = Steps()

    # -- autograd ---------------------------------------------------------------------------------------------

    def _autograd(self) -> None:
        import torch.autograd
        import torch.autograd.graph

        for module in (torch.autograd, torch.autograd.graph):
            if hasattr(module, "_engine_run_backward"):
                self._patches.wrap(module, "_engine_run_backward", self._backward)

    def _backward(self, original: Any, *args: Any, **kwargs: Any) -> Any:
        recording = self._recording
        if self._backward_depth or self._torch.compiler.is_compiling():
            return original(*args, **kwargs)  # reentrant checkpointing runs autograd in autograd
        recording.safely(self.optimizers_end)
        if self.evaluates_with_gradients:
            # In evaluation mode, but trained after all: a forward.
            self.evaluates_with_gradients = False
            recording.safely(recording.phases.rename, Phase.EVAL, Phase.FORWARD)
        opened = recording.enter(Phase.BACKWARD)
        self._backward_depth += 1
        try:
            result = original(*args, **kwargs)
        except BaseException as error:
            self._backward_depth -= 1
            recording.leave(opened, error)
            raise
        self._backward_depth -= 1
        recording.leave(opened, sharp=self._step_in_backward)
        if self._step_in_backward:
            self._step_in_backward = False
            recording.step_done()
        return result

    # -- optimizers ----------------------------------------------------------------------------------------

    def _optimizers(self) -> None:
        from torch.optim.optimizer import (
            register_optimizer_step_post_hook,
            register_optimizer_step_pre_hook,
        )

        for handle in (
            register_optimizer_step_pre_hook(self._before_step),
            register_optimizer_step_post_hook(self._after_step),
        ):
            self._patches.when_undone(handle.remove)
        clip = self._torch.nn.utils.clip_grad
        for name in ("clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_"):
            for owner in (self._torch.nn.utils, clip):
                if hasattr(owner, name):
                    self._patches.wrap(owner, name, self._preparing)
        self._patches.wrap(self._torch.amp.GradScaler, "unscale_", self._preparing)

    def _preparing(self, original: Any, *args: Any, **kwargs: Any) -> Any:
        """Clipping and unscaling belong to the step that they prepare, and last until it."""
        if self._torch.compiler.is_compiling() or self._backward_depth:
            return original(*args, **kwargs)
        opened = self._recording.enter(Phase.OPTIMIZER)
        try:
            result = original(*args, **kwargs)
        except BaseException as error:
            self._recording.leave(opened, error)
            raise
        self._recording.linger(opened)
        return result

    def _before_step(self, optimizer: Any, _args: Any, _kwargs: Any) -> None:
        if self._torch.compiler.is_compiling():
            return
        self._recording.safely(self._step_begins, optimizer)

    def _step_begins(self, _optimizer: Any) -> None:
        if self._optimizer_depth:
            # What was on its way may have ended by an exception without a word; this one is on the stack already.
            self._count_optimizers(besides=1)
        self._optimizer_depth += 1
        if self._optimizer_depth == 1:
            self._opened = self._recording.enter(Phase.OPTIMIZER)

    def optimizers_end(self) -> None:
        """A forward or backward begins: in an optimizer's closure, or after a step that ended by an exception."""
        if self._optimizer_depth:
            self._count_optimizers(besides=0)

    def _count_optimizers(self, besides: int) -> None:
        there = max(self._optimizers_on_stack() - besides, 0)
        if there < self._optimizer_depth:
            self._optimizer_depth = there
            if not there:
                self._recording.phases.drop(Phase.OPTIMIZER)

    def _after_step(self, optimizer: Any, _args: Any, _kwargs: Any) -> None:
        if self._torch.compiler.is_compiling():
            return
        self._recording.safely(self._step_ends, optimizer)

    def _step_ends(self, optimizer: Any) -> None:
        self._optimizer_depth = max(self._optimizer_depth - 1, 0)
        if self._optimizer_depth:
            return  # the step of a base class, inside that of the optimizer's own
        self._recording.leave(getattr(self, "_opened", None))
        if self.steps.stepped(optimizer):
            if self._backward_depth:
                self._step_in_backward = True
            else:
                self._recording.step_done()

    def _optimizers_on_stack(self) -> int:
        """How many steps of optimizers are on this thread's stack. Only walked where one may be stale: it costs."""
        code = _wrapper_code(self._torch.optim.Optimizer)
        return sum(frame.f_code is code for frame in frames())

    # -- compiled models -----------------------------------------------------------------------------------

    def _compiled(self, module: Any) -> None:
        """Watches compiled modules where they are called: those whose original is a root model here."""
        optimized = getattr(module, "OptimizedModule", None)
        if optimized is None or "__call__" not in vars(optimized):
            return
        models = self._models
        torch = self._torch

        def call(original: Any, compiled: Any, *args: Any, **kwargs: Any) -> Any:
            inner = getattr(compiled, "_orig_mod", compiled)
            one = models.get(inner)
            if one is None or compiled in models or torch.compiler.is_compiling():
                return original(compiled, *args, **kwargs)
            one.before(inner, args, kwargs)
            try:
                result = original(compiled, *args, **kwargs)
            except BaseException as error:
                one.over(error)
                raise
            one.over(None)
            return result

        self._patches.wrap(optimized, "__call__", call)

    def _compiles(self, original: Any, module: Any, *args: Any, **kwargs: Any) -> Any:
        """`model.compile()` puts a compiled call into the module: watched from outside too."""
        result = original(module, *args, **kwargs)
        one = self._models.get(module)
        if one is not None:
            self._recording.safely(one.watch_compiled_call, module, self._patches)
        return result


def _wrapper_code(optimizer: Any) -> Any:
    """The code of the function that PyTorch puts around every optimizer's `step`."""

    def step() -> None:
        """Stands for an optimizer's."""

    return optimizer.profile_hook_step(step).__code__
