"""How much a snapshot may ask for. A file is small; what it unpacks to need not be."""

from __future__ import annotations

from dataclasses import dataclass

from oomph.units import GIB, MIB


@dataclass(frozen=True)
class Caps:
    """Bounds for one snapshot; a file beyond one of them is refused with a sentence.

    file_bytes: what is read, after decompression. unpack_ratio: how many times its compressed size (and
    `unpack_floor_bytes`) a compressed file may become; real snapshots compress 10 to 30 times.
    text_bytes: one string. container_share: lists, dicts and tuples per byte of file above `container_floor`; each
    costs some 100 bytes of memory, a real snapshot has one per 40 bytes of file. segments, blocks, events, devices:
    counts; one event takes 49 bytes of columns, and some 100 bytes of a real file. PyTorch knows at most 120 devices
    (c10's C10_COMPILE_TIME_MAX_GPUS).
    """

    file_bytes: int = 8 * GIB
    unpack_ratio: int = 200
    unpack_floor_bytes: int = 16 * MIB
    text_bytes: int = 1 * MIB
    container_share: float = 0.16
    container_floor: int = 1_000_000
    devices: int = 128
    segments: int = 10_000_000
    blocks: int = 50_000_000
    events: int = 100_000_000


DEFAULT_CAPS = Caps()
