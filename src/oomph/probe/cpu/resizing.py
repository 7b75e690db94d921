"""`UntypedStorage.resize_`: how FSDP frees its parameters and makes room for them again. No operator tells of it."""

from __future__ import annotations

import functools
from typing import Any

from oomph.probe.cpu.storages import Storages

#: Who is told of a storage that was resized. While there is somebody, `_installed` is torch's method.
_told: list[Storages] = []
_installed: list[tuple[Any, bool]] = []


def install(storages: Storages) -> None:
    """Counts in `storages` what a storage gains or loses when it is resized."""
    _told.append(storages)
    if len(_told) == 1 and not _installed:
        _wrap()


def remove(storages: Storages) -> None:
    """Ends `install`; with the last one, torch's method is itself again (where nobody else put something around it)."""
    import torch

    if storages in _told:
        _told.remove(storages)
    if _told or not _installed:
        return
    ours, inherited = _installed[0]
    owner = torch.UntypedStorage
    if vars(owner).get("resize_") is ours:
        _installed.clear()
        if inherited:
            del owner.resize_
        else:
            owner.resize_ = ours.__wrapped__


def _wrap() -> None:
    import torch

    owner = torch.UntypedStorage
    original = owner.resize_

    @functools.wraps(original)
    def resize_(storage: Any, size: int) -> Any:
        if not _told:
            return original(storage, size)
        before = storage.nbytes()
        result = original(storage, size)
        for one in tuple(_told):
            try:
                one.resized(storage)
            except BaseException:
                # As on a card: a request that failed leaves the storage as it was.
                original(storage, before)
                raise
        return result

    _installed.append((resize_, "resize_" not in vars(owner)))
    owner.resize_ = resize_
