"""The template of one layer."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from oomph.predict.compose.kept import Kept
from oomph.predict.compose.keys import Keyed, structure_of
from oomph.predict.compose.mode import Mode
from oomph.predict.compose.policy import selective_policy
from oomph.predict.compose.scopes import compiled_scope, scope_of, section
from oomph.predict.compose.setup import Setup
from oomph.predict.engine.piece import Piece, build, play_forward


def block(setup: Setup, mode: Mode) -> Piece:
    """One layer."""
    return _BLOCKS.of(setup, mode)


def _block(inner: Setup, mode: Mode) -> Piece:
    its = section(inner, mode.kind)
    scope = compiled_scope(inner, mode, its) if inner.compiles_layers else scope_of(inner, mode)
    given: list[int] = []
    if mode.selective:
        scope.policy = selective_policy(inner.code)
        if mode.grad:
            same = Mode(frozen=mode.frozen, kind=mode.kind, joined=mode.joined)
            first = block(inner, replace(same, grad=False, pinned=True, selective=True))
            given = [first.forward.sizes[each] for each in first.policy]
    if mode.early_stop:
        scope.stop, scope.saves_results, scope.stop_added = _last_save(
            (structure_of(inner), id(inner.program)), Keyed(inner), mode
        )
        if scope.graph is not None:
            scope.graph.unpacks = True
    return build(
        scope,
        its,
        requires=mode.requires,
        pinned=mode.pinned,
        reentrant=mode.reentrant,
        hold_grad=mode.hold_grad,
        given=given,
    )


_BLOCKS = Kept(_block, 8192)


@lru_cache(maxsize=1024)
def _last_save(_key: object, setup: Keyed, mode: Mode) -> tuple[int, bool, int]:
    """Where a recomputation that is not reentrant ends: at the operator that saves the last tensor, before it runs, or
    after where that is one of its results, which the second number says (torch/utils/checkpoint.py,
    _StopRecomputationError). The third: at which operator of the adapters, where it is one of theirs, else -1."""
    inner = setup.setup
    scope = scope_of(inner, mode)
    play_forward(scope, section(inner, mode.kind), requires=mode.requires)
    return scope.last_save, scope.saves_results, scope.last_added
