"""Which storages of fake tensors hold simulated memory, and when they let it go."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from oomph.tracing.recorder.blocks import Block
    from oomph.tracing.recorder.recorder import Recorder


class Storages:
    """Blocks by storage. A storage's Python object lives exactly as long as its C++ one (torch 2.1 on), so a weak
    reference to it tells when the memory is free."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._blocks: dict[int, tuple[Block | None, weakref.ref[Any]]] = {}
        self._emptied: dict[int, Block] = {}

    def __len__(self) -> int:
        return len(self._blocks)

    def hold(self, storage: Any, block: Block | None) -> None:
        """The storage's memory is `block` (None: it has no bytes)."""
        key = storage._cdata  # noqa: SLF001 - torch's own name for a storage's identity
        blocks = self._blocks

        def gone(_: object) -> None:
            held = blocks.pop(key, None)
            self._emptied.pop(key, None)
            if held is not None and held[0] is not None:
                self._recorder.free(held[0])

        blocks[key] = (block, weakref.ref(storage, gone))

    def known(self, storage: Any) -> bool:
        """Whether the storage was seen before."""
        return storage._cdata in self._blocks  # noqa: SLF001

    def block_of(self, tensor: Any) -> Block | None:
        """The block under a tensor; None where it has none (a CPU tensor, no bytes)."""
        held = self._blocks.get(tensor.untyped_storage()._cdata)  # noqa: SLF001
        return None if held is None else held[0]

    def held(self, storage: Any) -> Block | None:
        """The block of a known storage."""
        return self._blocks[storage._cdata][0]  # noqa: SLF001

    def replace(self, storage: Any, block: Block | None) -> Block | None:
        """The storage was resized: its memory is another block now. The old one is returned, to be freed."""
        key = storage._cdata  # noqa: SLF001
        old, reference = self._blocks[key]
        self._blocks[key] = (block, reference)
        if block is None and old is not None:
            self._emptied[key] = old
        return old

    def last(self, storage: Any) -> Block | None:
        """The block that a known storage holds, or held before it was emptied: FSDP fills such storages again."""
        key = storage._cdata  # noqa: SLF001
        held = self._blocks[key][0]
        return self._emptied.get(key) if held is None else held

    def alive(self) -> list[Block]:
        """All blocks that storages hold now."""
        return [block for block, _ in list(self._blocks.values()) if block is not None]
