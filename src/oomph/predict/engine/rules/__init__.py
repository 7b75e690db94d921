"""How operators enter the graph: one file per kind. `RULES` has them by name."""

from __future__ import annotations

from oomph.predict.engine.rules import (
    attention,
    collectives,
    contrastive,
    convolution,
    fused,
    images,
    indexing,
    losses,
    matmul,
    norms,
    pointwise,
    views,
)
from oomph.predict.engine.rules.base import RULES

__all__ = [
    "RULES",
    "attention",
    "collectives",
    "contrastive",
    "convolution",
    "fused",
    "images",
    "indexing",
    "losses",
    "matmul",
    "norms",
    "pointwise",
    "views",
]
