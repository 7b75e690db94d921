"""Recorded programs put together, divided by tensor parallelism or with experts spread: each once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from oomph.predict.engine.expert_parallel import spread
from oomph.predict.engine.program import with_views
from oomph.predict.engine.sequence_parallel import Split, divide
from oomph.predict.programs.load import Program, Variant


@dataclass(frozen=True)
class _ById:
    """A variant that compares by identity."""

    variant: Variant

    def __hash__(self) -> int:
        return id(self.variant)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ById) and other.variant is self.variant


@cache
def _joined(variant: _ById) -> Program:
    return with_views(variant.variant.program())


@cache
def _divided(variant: _ById, split: Split) -> Program:
    return divide(variant.variant.program(), split)


@cache
def _spread(variant: _ById) -> Program:
    return spread(joined(variant.variant))


def joined(variant: Variant) -> Program:
    """A variant's program, put together once."""
    return _joined(_ById(variant))


def divided(variant: Variant, split: Split) -> Program:
    """The same as one tensor-parallel rank runs it."""
    return _divided(_ById(variant), split)


def with_spread_experts(variant: Variant) -> Program:
    """The same with expert parallelism's exchange of rows."""
    return _spread(_ById(variant))
