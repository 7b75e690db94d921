"""Bytes to plain Python objects, and nothing else: no class is looked up, no function is called."""

from __future__ import annotations

import gc
import io
import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO, NoReturn

from oomph.errors import InputError
from oomph.evidence.snapshot.caps import DEFAULT_CAPS, Caps
from oomph.evidence.snapshot.opcodes import Plain

#: What the C unpickler raises for damaged input: its own error, and whatever the broken piece leads to.
_DAMAGE = (
    pickle.UnpicklingError,
    EOFError,
    ValueError,
    TypeError,
    KeyError,
    IndexError,
    AttributeError,
    OverflowError,
)


class _PlainUnpickler(pickle.Unpickler):
    """The C unpickler without a way out. `Plain` refuses such opcodes before; this holds even where it is wrong."""

    def find_class(self, module: str, name: str, /) -> NoReturn:  # noqa: ARG002 (the names stand for nothing good)
        raise pickle.UnpicklingError("a snapshot names no class")

    def persistent_load(self, pid: object, /) -> NoReturn:  # noqa: ARG002
        raise pickle.UnpicklingError("a snapshot refers to nothing outside")


def unpickle(
    file: BinaryIO, size: int, name: str, caps: Caps = DEFAULT_CAPS, *, share: bool = False
) -> object:
    """What the pickle in `file`, of `size` bytes, holds. With `share`, equal lists of dicts are one tuple.

    Raises InputError, naming the file as `name`, for anything but plain data, before the damage is done.
    """
    try:
        # A buffered reader can look ahead, which spares a call per opcode in pickles without frames.
        return _PlainUnpickler(io.BufferedReader(Plain(file, size, name, caps, share=share), 1 << 17)).load()
    except _DAMAGE:
        raise InputError(f"{name} is damaged: its pickle does not hold together. Copy it again.") from None
    except MemoryError:
        raise InputError(f"{name} does not fit into memory. Read it on a machine with more.") from None


@contextmanager
def without_collector() -> Iterator[None]:
    """The garbage collector rests meanwhile: it would walk millions of new objects again and again."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()
