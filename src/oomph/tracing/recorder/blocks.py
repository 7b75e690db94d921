"""One block that the traced code holds."""

from __future__ import annotations

#: `Block.category` while nothing has told it. Not an index of CATEGORIES.
UNTOLD = -1


class Block:
    """An allocated block. Sizes and addresses are bytes; `number` counts the device's allocations from 0.

    `category` is an index into CATEGORIES or UNTOLD; `label` and `operator` are numbers of labels (-1: none), `phase`
    is the one of its birth.
    """

    __slots__ = ("address", "category", "device", "label", "number", "operator", "phase", "size", "stream")

    def __init__(self, device: int, address: int, size: int, stream: int, number: int, phase: int) -> None:
        self.device = device
        self.address = address
        self.size = size
        self.stream = stream
        self.number = number
        self.phase = phase
        self.category = UNTOLD
        self.label = -1
        self.operator = -1

    def __repr__(self) -> str:
        return f"Block({self.size} bytes at {self.address:#x} of cuda:{self.device})"
