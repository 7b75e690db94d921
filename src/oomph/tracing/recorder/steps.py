"""How many training steps are done, where several optimizers take part.

A step is over when every optimizer has stepped: a GAN's generator and its critic (which may step five times for it), or
one optimizer for each parameter that steps in backward. One that steps no more, or whose turn comes much later, does
not hold the others up: when another has taken `_PATIENCE` steps without it, it counts no longer.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from oomph.tracing.recorder.recorder import Recorder

#: Critics of a GAN step about five times for each step of the generator.
_PATIENCE = 8


class Steps:
    """Counts the steps of each optimizer that was made, or that has stepped."""

    def __init__(self) -> None:
        self._counts: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        #: The most steps of any optimizer when this one stepped last.
        self._leader_then: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._changed: set[int] = set()

    def made(self, optimizer: Any) -> None:
        """An optimizer is there that has not stepped."""
        self._counts.setdefault(optimizer, 0)
        self._leader_then.setdefault(optimizer, max(self._counts.values(), default=0))

    def stepped(self, optimizer: Any) -> int:
        """An optimizer has stepped; returns the number of steps that all have done which take part."""
        self._counts[optimizer] = self._counts.get(optimizer, 0) + 1
        leader = max(self._counts.values())
        self._leader_then[optimizer] = leader
        self._changed.update(map(id, _trained(optimizer)))
        return min(
            count
            for other, count in self._counts.items()
            if other is optimizer or self._takes_part(other, count, leader)
        )

    def _takes_part(self, optimizer: Any, count: int, leader: int) -> bool:
        if leader - self._leader_then.get(optimizer, 0) >= _PATIENCE:
            return False
        # One that another took the place of, or that wraps another, has nothing left to change.
        return bool(count) or any(id(one) not in self._changed for one in _trained(optimizer))


def _trained(optimizer: Any) -> list[Any]:
    """What it has on a device to change. Of a class that only looks like an optimizer: nothing."""
    try:
        every = [one for group in optimizer.param_groups for one in group["params"]]
        return [one for one in every if one.requires_grad and one.device.type == "cuda"]
    except (AttributeError, KeyError, TypeError):
        return []


def install(recorder: Recorder, steps: Steps) -> None:
    """Notices every optimizer that is made."""
    import torch

    def made(original: Any, optimizer: Any, *args: Any, **kwargs: Any) -> None:
        original(optimizer, *args, **kwargs)
        steps.made(optimizer)

    recorder.patches.wrap(torch.optim.Optimizer, "__init__", made)
