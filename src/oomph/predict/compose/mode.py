"""How a piece of a model is played."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Mode:
    """How a piece is played. grad: with autograd. requires: the hidden state wants a gradient. accumulates: gradients
    exist and new ones are added to them. frozen: parameters that do not train in this layer. kind: its section.
    joined: what is frozen is part of a flat parameter that trains. leaf: the tokens' embedding is made to want a
    gradient (enable_input_require_grads). wide: what comes in is fp32 although the recording's is not (widening.py).
    attributes: without autograd here, but what nodes have as attributes is kept (int8.py)."""

    grad: bool = True
    requires: bool = True
    pinned: bool = False
    reentrant: bool = False
    accumulates: bool = False
    hold_grad: bool = False
    early_stop: bool = False
    selective: bool = False
    frozen: frozenset[str] = frozenset()
    kind: str = "block"
    leaf: bool = False
    joined: bool = False
    wide: bool = False
    attributes: bool = False
