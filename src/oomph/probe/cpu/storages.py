"""Which storages of CPU tensors hold which blocks of the simulated card, and when they let them go."""

from __future__ import annotations

import weakref
from typing import Any

from oomph.probe.cpu.card import Block, Card


class Storages:
    """Blocks by storage. A storage's Python object lives exactly as long as its C++ one (torch 2.1 on), so a weak
    reference to it tells when the memory is free."""

    def __init__(self, card: Card) -> None:
        self.card = card
        self.blocks: dict[int, tuple[Block | None, weakref.ref[Any]]] = {}

    def see(self, storage: Any) -> None:
        """A storage that a tensor has: counted if it is new, and on the CPU; counted anew if it was resized.

        Raises torch's OutOfMemoryError when the card cannot hold it.
        """
        key = storage._cdata  # noqa: SLF001 - torch's own name for a storage's identity
        held = self.blocks.get(key)
        if held is None or not _refers(held[1], storage):
            if storage.device.type == "cpu":
                size = storage.nbytes()
                self._hold(storage, key, self.card.take(size) if size else None)
        elif storage.nbytes() != (0 if held[0] is None else held[0].size):
            self.resized(storage)

    def resized(self, storage: Any) -> None:
        """The storage's memory is another one now. As in PyTorch, the new is taken before the old is given back."""
        key = storage._cdata  # noqa: SLF001
        held = self.blocks.get(key)
        if held is None or not _refers(held[1], storage):
            self.see(storage)
            return
        size = storage.nbytes()
        if size == (0 if held[0] is None else held[0].size):
            return
        new = self.card.take(size) if size else None
        self.blocks[key] = (new, held[1])
        if held[0] is not None:
            self.card.give_back(held[0])

    def _hold(self, storage: Any, key: int, block: Block | None) -> None:
        blocks, card = self.blocks, self.card

        def gone(reference: weakref.ref[Any]) -> None:
            held = blocks.get(key)
            if held is not None and held[1] is reference:
                del blocks[key]
                if held[0] is not None:
                    card.give_back(held[0])

        stale = blocks.get(key)
        reference = weakref.ref(storage, gone)
        blocks[key] = (block, reference)
        if stale is not None and stale[0] is not None:
            card.give_back(stale[0])

    def adopt(self, storage: Any) -> None:
        """A storage from before the card, whether it fits or not."""
        with self.card.without_limit():
            self.see(storage)

    def forget(self) -> None:
        """Nothing is heard of any storage any more."""
        self.blocks.clear()

    def frames_by_address(self) -> dict[int, list[dict[str, Any]]]:
        """Where each block that is held was taken."""
        return {block.address: block.frames for block, _ in list(self.blocks.values()) if block is not None}


def _refers(reference: weakref.ref[Any], storage: Any) -> bool:
    """Whether it is this storage, and not a dead one that had the same address."""
    return reference() is storage
