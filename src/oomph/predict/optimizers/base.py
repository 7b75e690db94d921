"""What every optimizer does: its states at the first step, and what a step takes for a while."""

from __future__ import annotations

from typing import Protocol

from oomph.predict.sharding.base import UnitParameter
from oomph.predict.sink import Sink


class Stepper(Protocol):
    """An optimizer over the local parameters of one rank."""

    def step(self, sink: Sink, parameters: tuple[UnitParameter, ...], first: bool) -> None:
        """One step. The first makes the states, which stay; temporaries are freed inside."""
        ...
