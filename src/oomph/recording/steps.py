"""When a training step is over, where several optimizers take part.

It is when every optimizer has stepped: a GAN's generator and its critic (which may step five times for it), or one
optimizer for each parameter that steps in backward. One that steps no more does not hold the others up: when another
has taken `PATIENCE` steps without it, it counts no longer.
"""

from __future__ import annotations

import weakref
from typing import Any

#: Critics of a GAN step about five times for each step of the generator.
PATIENCE = 8


class Steps:
    """Counts the steps of each optimizer. `expected`: optimizers that are known to take part before they step."""

    def __init__(self) -> None:
        self._counts: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._leader_then: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self.done = 0

    def expect(self, optimizer: Any) -> None:
        """An optimizer takes part that has not stepped yet."""
        self._counts.setdefault(optimizer, self.done)
        self._leader_then.setdefault(optimizer, max(self._counts.values(), default=0))

    def stepped(self, optimizer: Any) -> bool:
        """An optimizer has stepped; True where this completes a training step."""
        self._counts[optimizer] = self._counts.get(optimizer, self.done) + 1
        leader = max(self._counts.values())
        self._leader_then[optimizer] = leader
        least = min(
            count
            for other, count in self._counts.items()
            if other is optimizer or leader - self._leader_then.get(other, 0) < PATIENCE
        )
        if least <= self.done:
            return False
        self.done += 1
        # Those that waited for one that counts no longer have no steps left over.
        for other, count in list(self._counts.items()):
            if count < self.done:
                self._counts[other] = self.done
        return True
