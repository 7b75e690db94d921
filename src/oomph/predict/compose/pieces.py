"""Templates of a model's parts for one setup, made once and kept: front_piece.py, block_piece.py, head_piece.py, on the
scopes of scopes.py, in the ways of mode.py."""

from __future__ import annotations

from oomph.predict.compose.block_piece import block
from oomph.predict.compose.front_piece import Front, front
from oomph.predict.compose.head_piece import head
from oomph.predict.compose.mode import Mode
from oomph.predict.compose.scopes import operators_of, scope_of, section

__all__ = ["Front", "Mode", "block", "front", "head", "operators_of", "scope_of", "section"]
