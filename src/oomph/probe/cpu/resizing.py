"""`UntypedStorage.resize_`: how FSDP frees its parameters and makes room for them again. No operator tells of it."""

from __future__ import annotations

import functools
from typing import Any

from oomph.probe.cpu.storages import Storages


class Resizing:
    """Counts what a storage gains or loses when it is resized, between `install` and `remove`."""

    def __init__(self, storages: Storages) -> None:
        self._storages = storages
        self._active = False
        self._ours: Any = None
        self._inherited = True
        self._before: Any = None

    def install(self) -> None:
        """Puts itself around the method."""
        import torch

        self._active = True
        owner, storages = torch.UntypedStorage, self._storages
        self._inherited = "resize_" not in vars(owner)
        self._before = original = owner.resize_

        @functools.wraps(original)
        def resize_(storage: Any, size: int) -> Any:
            before = storage.nbytes()
            result = original(storage, size)
            if self._active:
                try:
                    storages.resized(storage)
                except BaseException:
                    # As on a card: a request that failed leaves the storage as it was.
                    original(storage, before)
                    raise
            return result

        self._ours = resize_
        owner.resize_ = resize_

    def remove(self) -> None:
        """Takes itself away, or where another stands around it, falls silent."""
        import torch

        owner = torch.UntypedStorage
        self._active = False
        if vars(owner).get("resize_") is not self._ours:
            return
        if self._inherited:
            del owner.resize_
        else:
            owner.resize_ = self._before
