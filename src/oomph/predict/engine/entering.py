"""An operator enters the graph: the rule of its derivative says what is saved."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from oomph.errors import UsageError
from oomph.predict.engine.graph import Graph
from oomph.predict.engine.heap import Tensor
from oomph.predict.engine.rules import RULES
from oomph.predict.engine.rules.base import Call
from oomph.predict.engine.rules.copies import copied_into
from oomph.predict.engine.scope import Scope

#: Operators through which nothing trains: comparisons, factories, index arithmetic.
_NAMES = """
arange ones zeros full empty ones_like zeros_like full_like empty_like new_empty eq ne lt le gt ge logical_and
logical_or logical_not bitwise_and bitwise_or bitwise_not any all argmax detach cumsum tril triu new_ones new_zeros
new_full scalar_tensor sort floor_divide remainder isin _local_scalar_dense nonzero fill_ zero_ copy_ bernoulli_
lift_fresh scatter_ histc floor ceil sign
"""
_NO_GRADIENT = frozenset(_NAMES.split())


def enter(
    scope: Scope,
    packet: str,
    inputs: list[Tensor | None],
    arguments: Sequence[Any],
    made: list[Tensor],
    graph: Graph,
) -> None:
    """One operator enters the graph. Raises UsageError where it has no rule and would need one."""
    if packet == "aten.copy_" and inputs[1] is not None and inputs[1].requires:
        copied_into(graph, _base_of(scope, made[0]), made[0], inputs[1])
        return
    if packet.removeprefix("aten.") in _NO_GRADIENT or not made:
        return
    if made[0].dtype in ("bool", "int64", "int32", "uint8"):
        return
    rule = RULES.get(packet)
    if rule is None:
        raise UsageError(
            f"unsupported: the operator {packet} has no derivative rule here; `oomph trace` runs the script itself."
        )
    rule(Call(packet, inputs, arguments, made, graph, scope.gpu, scope.torch))


def _base_of(scope: Scope, part: Tensor) -> Tensor:
    """The first tensor on the storage of a view."""
    return next(each for each in scope.tensors.values() if each.storage is part.storage)
