"""What every optimizer does: its states at the first step, and what a step takes for a while."""

from __future__ import annotations

from typing import Protocol

from oomph.predict.sharding.base import UnitParameter
from oomph.predict.sink import Sink


class Stepper(Protocol):
    """An optimizer over the local parameters of one rank.

    `in_backward`: the step runs inside backward, once for each parameter as its gradient is there, which is freed at
    once: the step is composed with `step(sink, (parameter,), first)` at each gradient, and none after backward.
    `on_host`: the step runs on the host (offload): gradients leave the device, and nothing is allocated here.
    `name`: for people ("AdamW, foreach"). `assumptions`: what stood in for what the job does not say.
    """

    in_backward: bool
    on_host: bool
    name: str
    assumptions: tuple[str, ...]

    def setup(self, sink: Sink, parameters: tuple[UnitParameter, ...]) -> None:
        """What the optimizer allocates when it is made, before the first forward (fp32 masters; mostly nothing)."""
        ...

    def step(self, sink: Sink, parameters: tuple[UnitParameter, ...], first: bool) -> None:
        """One step. The first makes the states, which stay; temporaries are freed inside. Parameters that do not train
        are passed over. The same tuple object given again costs next to nothing."""
        ...
