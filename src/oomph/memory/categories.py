"""What a block of memory is for."""

from __future__ import annotations

from enum import Enum


class Category(str, Enum):
    """What the bytes of a block hold. The order is the order in which reports list them.

    `temporaries` live and die inside one phase of one step; `activations` are made in forward and kept for backward;
    `workspace` is scratch memory of libraries (cuBLAS, cuDNN) that stays; `unknown` is an answer, given when nothing
    speaks for another.
    """

    PARAMETERS = "parameters"
    GRADIENTS = "gradients"
    OPTIMIZER_STATE = "optimizer state"
    ACTIVATIONS = "activations"
    TEMPORARIES = "temporaries"
    COMMUNICATION = "communication"
    WORKSPACE = "workspace"
    UNKNOWN = "unknown"

    def __str__(self) -> str:
        return self.value


#: By number, as columns hold them: `CATEGORIES[number]`.
CATEGORIES = tuple(Category)
