"""What `--steps N` means, and what is to be said when fewer were done.

The recorder counts optimizer steps: one step of one training loop, however many optimizers take part and however many
backward passes were accumulated for it. After the N-th it raises TraceEnd, which is no `Exception`: it passes through
`except Exception` and runs `finally` blocks, so that a loop of the script's own ends right after the step, with all
that is alive then. Trainers that have a number of steps of their own (transformers, Lightning) are given this one by
oomph.tracing.libraries, so that what they do after the last step is traced too.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from typing import Any

from oomph.tracing.child.request import Ending
from oomph.units import format_bytes


def sentence(ending: Ending, done: int, wanted: int | None) -> str:
    """What has to be said about the number of steps; empty where all is as asked."""
    if ending not in (Ending.FINISHED, Ending.EXITED):
        return ""
    if done == 0:
        return "No optimizer step was taken: what is said holds for what ran, which may not be training."
    if wanted is not None and done < wanted:
        return f"The script ended after {_steps(done)}, before the {wanted} that were asked for."
    return ""


def watch_optimizers() -> Callable[[], str]:
    """From here on steps are watched. The answer is a sentence about parameters that an optimizer of the script's is to
    change and that had no step yet (a GAN's generator after three steps of its critic; an optimizer for each parameter,
    that steps in backward): their gradients and states are not in the trace. Empty where there are none."""
    module: Any = sys.modules.get("torch.optim.optimizer")
    if module is None:
        return str
    stepped: set[int] = set()

    def begin(optimizer: Any, _args: Any, _kwargs: Any) -> None:
        stepped.update(id(one) for one in _parameters(optimizer))

    module.register_optimizer_step_pre_hook(begin)

    def idle() -> str:
        sizes: dict[int, int] = {}
        for each in gc.get_objects():
            if issubclass(type(each), module.Optimizer):
                mine = _parameters(each)
                # Wrappers of optimizers are optimizers too: what counts is whether anybody stepped.
                if not any(id(one) in stepped for one in mine):
                    sizes.update((id(one), one.numel() * one.element_size()) for one in mine)
        if not sizes:
            return ""
        return (
            f"The trace was stopped before an optimizer of {format_bytes(sum(sizes.values()))} of parameters took its "
            "first step: what that needs is missing here, a higher --steps, or --steps all, shows it."
        )

    return idle


def _parameters(optimizer: Any) -> list[Any]:
    """Those on a GPU that are trained; of a class that only looks like an optimizer none."""
    try:
        every = [one for group in optimizer.param_groups for one in group["params"]]
        return [one for one in every if one.requires_grad and one.device.type == "cuda"]
    except Exception:  # noqa: BLE001 - code of the script's
        return []


def _steps(count: int) -> str:
    return "1 optimizer step" if count == 1 else f"{count} optimizer steps"
