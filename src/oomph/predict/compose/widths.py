"""Where the hidden state is fp32 although the recording's is not (engine/widening.py)."""

from __future__ import annotations

from oomph.predict.compose import pieces
from oomph.predict.compose.pieces import Front, Mode
from oomph.predict.compose.setup import Setup
from oomph.predict.engine.piece import Piece


def first_is_wide(setup: Setup, front: Front) -> bool:
    """Whether what goes into the first layer is: of an embedding whose weight was cast to fp32."""
    if not setup.widens:
        return False
    mode = Mode(grad=False, requires=False, frozen=setup.frozen_in(0), kind=setup.kind(0))
    return front.piece.out_bytes > pieces.block(setup, mode).forward.sizes[0]


def widens_here(setup: Setup, piece: Piece) -> bool:
    """Whether a layer hands on wider elements than it was given."""
    return setup.widens and piece.out_bytes > piece.forward.sizes[0]
