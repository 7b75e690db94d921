"""FSDP2 of layers with spread experts: what is no expert is cut among all ranks, a rank's experts among those that have
the same ones, and both are two groups of one unit.

Source: torchtitan/distributed/fsdp.py (apply_fsdp_to_decoder: a mesh for each parameter, and prefetching by name);
torch/distributed/fsdp/_fully_shard: _fsdp_state.py (_pre_forward, _pre_backward), _fsdp_param_group.py (post_backward:
inputs of reductions are let go when the next unit's last group reduces).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from oomph.predict.sharding.base import Grad, Unit, UnitParameter
from oomph.predict.sharding.fsdp2 import Fsdp2
from oomph.predict.sharding.fsdp2_group import Fsdp2Options, sizes_of
from oomph.predict.sharding.shards import Group
from oomph.predict.sink import Sink


def is_of_experts(name: str) -> bool:
    """Whether a parameter is one of those that expert parallelism spreads, by its name in a section."""
    return ".experts." in name


class ExpertFsdp2(Fsdp2):
    """FSDP2 on one of `group`'s ranks, of which `ranks` have different experts. Units are gathered one ahead, forward
    and backward."""

    def __init__(
        self,
        units: Sequence[Unit],
        sink: Sink,
        group: Group,
        options: Fsdp2Options,
        ranks: int,
    ) -> None:
        self._parts: list[tuple[int, ...]] = []
        inner: list[Unit] = []
        alone: list[bool] = []
        groups: list[Group] = []
        same = Group(group.ranks // ranks, group.rank // ranks, group.replicas)
        for unit in units:
            numbers: list[int] = []
            for its, chosen in zip(_halves(unit), (group, same), strict=True):
                if its or not numbers:
                    numbers.append(len(inner))
                    inner.append(Unit(unit.name, its))
                    groups.append(chosen)
                    alone.append(chosen.ranks == 1)
            self._parts.append(tuple(numbers))
        stays = frozenset(each for unit in options.stays for each in self._parts[unit])
        super().__init__(inner, sink, group, replace(options, stays=stays))
        self._sizes = [
            sizes_of(unit, chosen, self._options) for unit, chosen in zip(inner, groups, strict=True)
        ]
        self._alone_of = alone

    def forward_before(self, unit: int) -> None:
        """Both groups are gathered, one after the other, and then the next unit's are asked for."""
        if unit == 0:
            return
        for each in self._parts[unit]:
            super().forward_before(each)
        if not self._backward and unit + 1 < len(self._parts):
            for each in self._parts[unit + 1]:
                self._gather(each)

    def forward_after(self, unit: int) -> None:
        """Both are freed."""
        for each in self._parts[unit]:
            super().forward_after(each)

    def backward_before(self, unit: int) -> None:
        """Both are gathered, and the unit before is asked for, its experts first."""
        if unit == 0:
            return
        for each in self._parts[unit]:
            self._gather(each)
            self._wait(each, forward=False)
        if unit > 1:
            for each in reversed(self._parts[unit - 1]):
                self._gather(each)

    def backward_after(self, unit: int, grads: Sequence[Grad]) -> None:
        """The experts' gradients are reduced first, among the ranks that have the same ones."""
        if unit == 0 or len(self._parts[unit]) == 1:
            super().backward_after(self._parts[unit][0], grads)
            return
        others, experts = self._parts[unit]
        super().backward_after(experts, [each for each in grads if is_of_experts(each.parameter.name)])
        # the inputs of what was reduced are let go by a unit's last group alone
        inputs, self._inputs = self._inputs, []
        super().backward_after(others, [each for each in grads if not is_of_experts(each.parameter.name)])
        self._inputs = [*inputs, *self._inputs]

    def _gather(self, unit: int) -> None:
        self._alone = self._alone_of[unit]
        super()._gather(unit)

    def _wait(self, unit: int, *, forward: bool) -> None:
        self._alone = self._alone_of[unit]
        super()._wait(unit, forward=forward)


def _halves(unit: Unit) -> tuple[tuple[UnitParameter, ...], tuple[UnitParameter, ...]]:
    experts = tuple(each for each in unit.parameters if is_of_experts(each.name))
    return tuple(each for each in unit.parameters if not is_of_experts(each.name)), experts
