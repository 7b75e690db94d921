"""Which storages of CPU tensors hold which blocks of the simulated card, and when they let them go."""

from __future__ import annotations

import weakref
from typing import Any

from oomph.probe.cpu.card import Block, Card

#: What stands for the block of a storage whose block another one has taken over. It is not given back.
_GIVEN = Block(0, 0, [])


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
        elif storage.nbytes() != (0 if held[0] is None else held[0].size) and held[0] is not _GIVEN:
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
        self._give_back(held[0])

    def take_over(self, storage: Any, old: Any) -> None:
        """The storage stands where the old one stood, which its owner is about to let go."""
        held = self.blocks.get(old._cdata)  # noqa: SLF001
        size = storage.nbytes()
        known = storage._cdata in self.blocks  # noqa: SLF001
        if known or held is None or held[0] is None or held[0].size != size or not _refers(held[1], old):
            self.see(storage)
            return
        self.blocks[old._cdata] = (_GIVEN, held[1])  # noqa: SLF001
        self._hold(storage, storage._cdata, held[0])  # noqa: SLF001

    def _give_back(self, block: Block | None) -> None:
        if block is not None and block is not _GIVEN:
            self.card.give_back(block)

    def _hold(self, storage: Any, key: int, block: Block | None) -> None:
        blocks, give_back = self.blocks, self._give_back

        def gone(reference: weakref.ref[Any]) -> None:
            held = blocks.get(key)
            if held is not None and held[1] is reference:
                del blocks[key]
                give_back(held[0])

        stale = blocks.get(key)
        reference = weakref.ref(storage, gone)
        blocks[key] = (block, reference)
        if stale is not None:
            give_back(stale[0])

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
