"""Which phase runs: told by what the program itself calls, with no change to it.

The order of a training loop decides: before the first call of a module, `load`; from a module's call on, `forward`
(or `eval` where it is called without gradients after training began, or in evaluation mode); inside autograd's engine,
`backward`; inside an optimizer's step, and in the clipping and unscaling before it, `optimizer`.
"""

from __future__ import annotations

import weakref
from typing import Any

from oomph.phases import Phase
from oomph.tracing.recorder import steps
from oomph.tracing.recorder.recorder import PHASES, Recorder

_FORWARD = PHASES.index(Phase.FORWARD)
_BACKWARD = PHASES.index(Phase.BACKWARD)
_OPTIMIZER = PHASES.index(Phase.OPTIMIZER)
_EVAL = PHASES.index(Phase.EVAL)
#: Phases that a module's call does not change: somebody who knows better has set them.
_SET = frozenset(
    PHASES.index(phase) for phase in (Phase.GENERATE, Phase.SAVE, Phase.BACKWARD, Phase.OPTIMIZER)
)


def install(recorder: Recorder, mode: Any) -> None:
    """Hooks modules, autograd and optimizers for as long as the recorder's patches hold."""
    _modules(recorder)
    _autograd(recorder, mode)
    _optimizers(recorder)
    _before_the_step(recorder)


class _Names:
    """The place of each module in the outermost one that was called."""

    def __init__(self) -> None:
        self._names: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()

    def learn(self, root: Any) -> bool:
        """Names what is inside a module; False where that was done before."""
        if root in self._names:
            return False
        for name, module in root.named_modules():
            if module not in self._names:
                self._names[module] = name or type(module).__name__
        return True

    def of(self, module: Any) -> str:
        return self._names.get(module) or type(module).__name__


def _modules(recorder: Recorder) -> None:
    import torch

    names = _Names()
    numbers: dict[int, tuple[Any, int]] = {}
    now = recorder.now
    depth = 0

    def call(original: Any, module: Any, *args: Any, **kwargs: Any) -> Any:
        nonlocal depth
        if depth == 0:
            if names.learn(module):
                recorder.module_called(module)
            recorder.module_gets(args, kwargs)
            if (recorder.lingers and not recorder.inside) or now[0] not in _SET:
                recorder.lingers = False
                evaluates = not torch.is_grad_enabled() and (now[1] > 0 or not module.training)
                now[0] = _EVAL if evaluates else _FORWARD
        before = recorder.label
        key = id(module)
        label = numbers.get(key)
        if label is None or label[0]() is not module:
            label = numbers[key] = (weakref.ref(module), recorder.label_number(names.of(module)))
        recorder.label = label[1]
        depth += 1
        try:
            return original(module, *args, **kwargs)
        finally:
            depth -= 1
            recorder.label = before

    recorder.patches.wrap(torch.nn.Module, "__call__", call)


def _autograd(recorder: Recorder, mode: Any) -> None:
    import torch.autograd
    import torch.autograd.graph

    now = recorder.now

    def run(original: Any, *args: Any, **kwargs: Any) -> Any:
        before, label = now[0], recorder.label
        if mode.in_backward == 0:
            recorder.backward_begins()
        now[0] = _BACKWARD
        mode.in_backward += 1
        recorder.inside += 1
        recorder.label = -1
        try:
            return original(*args, **kwargs)
        finally:
            mode.in_backward -= 1
            recorder.inside -= 1
            recorder.label = label
            if recorder.inside:
                now[0] = before
            else:
                recorder.lingers = True

    for module in (torch.autograd, torch.autograd.graph):
        if hasattr(module, "_engine_run_backward"):
            recorder.patches.wrap(module, "_engine_run_backward", run)


def _optimizers(recorder: Recorder) -> None:
    from torch.optim.optimizer import (
        register_optimizer_step_post_hook,
        register_optimizer_step_pre_hook,
    )

    now = recorder.now
    before: list[int] = []
    running: list[Any] = []
    counts = steps.Steps()
    steps.install(recorder, counts)

    def begin(optimizer: Any, _args: Any, _kwargs: Any) -> None:
        recorder.step_begins(optimizer)
        before.append(now[0])
        running.append(optimizer)
        recorder.inside += 1
        now[0] = _OPTIMIZER

    def end(optimizer: Any, _args: Any, _kwargs: Any) -> None:
        now[0] = before.pop() if before else _FORWARD
        recorder.inside = max(recorder.inside - 1, 0)
        if not recorder.inside:
            now[0] = _OPTIMIZER
            recorder.lingers = True
        recorder.step_ends(optimizer)
        if running:
            running.pop()
        if any(one is optimizer for one in running):
            return  # the step of a base class, inside that of the optimizer's own
        # One at a time: an optimizer that counts no longer had held up those before.
        recorder.step_done(min(counts.stepped(optimizer), recorder.steps_done + 1))

    for handle in (register_optimizer_step_pre_hook(begin), register_optimizer_step_post_hook(end)):
        recorder.patches.when_undone(handle.remove)


def _before_the_step(recorder: Recorder) -> None:
    """What prepares the step belongs to it: clipping and unscaling of gradients."""
    import torch

    def inside(original: Any, *args: Any, **kwargs: Any) -> Any:
        with recorder.phase(Phase.OPTIMIZER):
            return original(*args, **kwargs)

    clip = torch.nn.utils.clip_grad
    for name in ("clip_grad_norm_", "clip_grad_value_", "get_total_norm", "clip_grads_with_norm_"):
        for owner in (torch.nn.utils, clip):
            if hasattr(owner, name):
                recorder.patches.wrap(owner, name, inside)
    for scaler in {torch.amp.GradScaler, torch.cuda.amp.GradScaler}:
        for name in ("unscale_", "update"):
            if name in vars(scaler):
                recorder.patches.wrap(scaler, name, inside)
