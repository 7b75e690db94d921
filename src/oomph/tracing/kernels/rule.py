"""What a rule of the kernel memory model is: which operators it speaks of, and what they allocate beside their results.

A fake kernel makes results only. The real one may allocate scratch memory before or after them, keep a workspace, or
allocate its results in another order. A rule says so as a list of steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from oomph.hardware.gpus import Gpu


@dataclass(frozen=True)
class Call:
    """One operator call on a device.

    `op` is torch's OpOverload; `args` and `kwargs` hold fake tensors. `torch` is the version that the trace speaks
    for. `thread` tells host threads apart (autograd runs backward on its own), `stream` CUDA streams; `memory` is a
    dict that lives as long as the trace, for rules that act once per thread or stream.
    """

    op: Any
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    gpu: Gpu
    torch: tuple[int, int]
    device: int
    stream: int
    thread: int
    memory: dict[object, Any]


@dataclass(frozen=True)
class Take:
    """Allocates `bytes` under a name, to be given back by `Give` of the same name, or when the operator ends."""

    name: str
    bytes: int


@dataclass(frozen=True)
class Give:
    """Frees what `Take` took."""

    name: str


@dataclass(frozen=True)
class Keep:
    """Allocates `bytes` that stay until the process ends: a workspace."""

    name: str
    bytes: int


@dataclass(frozen=True)
class Output:
    """The operator's result number `index` is allocated here; None: all results that were not named, in order.

    `bytes` is what its memory really takes where the fake kernel's result says something else: 0 for one that is on
    the CPU, or more than its elements need.
    """

    index: int | None = None
    bytes: int | None = None


Step = Take | Give | Keep | Output


@dataclass(frozen=True)
class Effect:
    """What happens in one call, in order. Results that no step names come last. What was taken and not given is freed
    in the order of its taking, after the results.

    `uncertain_bytes` is by how much more than said here the call may take for its duration (cuDNN's workspaces).
    """

    steps: tuple[Step, ...]
    uncertain_bytes: int = 0


class KernelRule(Protocol):
    """One rule. `operators` are names as `aten.mm` (all overloads) or `aten.sum.dim_IntList` (one); `evidence` says
    where it was seen: a source file of PyTorch, or real snapshots."""

    name: str
    operators: tuple[str, ...]
    evidence: str

    def effect(self, call: Call) -> Effect | None:
        """What this call allocates beside its results; None: nothing."""
        ...


@dataclass
class RuleSet:
    """Rules by operator. `without` leaves rules out by name, to see what they are for."""

    rules: list[KernelRule] = field(default_factory=list)

    def by_operator(self) -> dict[str, list[KernelRule]]:
        """Each operator's rules; several are asked in order, and their effects are joined around the results."""
        table: dict[str, list[KernelRule]] = {}
        for rule in self.rules:
            for operator in rule.operators:
                table.setdefault(operator, []).append(rule)
        return table

    def without(self, *names: str) -> RuleSet:
        """The same rules but for those named."""
        return RuleSet([rule for rule in self.rules if rule.name not in names])
