"""Operators of a run under the numbers of a section of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from oomph.tracing.programs.watch import Op, Ref


class Renumber(ABC):
    """Gives tensors numbers of its own."""

    @abstractmethod
    def tensor(self, number: int) -> int:
        """The section's number of a tensor of the run."""

    def operator(self, op: Op) -> Op:
        """The same operator on the section's tensors."""
        return Op(
            op.name,
            [self.argument(value) for value in op.args],
            {name: self.argument(value) for name, value in op.kwargs.items()},
            [None if number is None else self.tensor(number) for number in op.results],
        )

    def argument(self, value: Any) -> Any:
        """The same argument with the section's tensors."""
        if isinstance(value, Ref):
            return Ref(self.tensor(value.number))
        return [self.argument(one) for one in value] if isinstance(value, list) else value
