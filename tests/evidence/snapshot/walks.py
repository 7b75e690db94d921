"""Pickles, whole and damaged, and where the look at their opcodes stops: by `scan`, as it is imported here.

Run as a script, it prints what it found, so that the compiled walk can be compared with the one in Python.
"""

from __future__ import annotations

import json
import pickle
import random
import sys
from collections.abc import Iterator
from typing import Any

from oomph.evidence.snapshot import opcodes, scan

#: Sizes of files around those where the bound for memo indexes gets another byte.
SIZES = (1, 200, 255, 256, 257, 65_535, 65_536, 70_000, 1 << 24, 98_231_665, (1 << 32) - 1, 1 << 32, 1 << 33)


def content() -> dict[str, Any]:
    """All kinds of plain values that a snapshot has, and some that it has not."""
    shared = [{"name": f"f{i}", "filename": "a.py", "line": i} for i in range(300)]
    numbers = [
        0,
        255,
        256,
        65_535,
        65_536,
        1 << 31,
        -1,
        -(1 << 31),
        1 << 40,
        1 << 47,
        (1 << 63) - 1,
        -(1 << 63),
    ]
    return {
        "numbers": [*numbers, 1 << 64, 1 << 80, 0.5, True, False, None],
        "texts": ["", "a", "ä" * 100, "x" * 255, "x" * 256, "y" * 70_000],
        "tuples": [(), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4)],
        "frames": [shared[i : i + 9] for i in range(0, 290, 3)],
        "again": shared,
    }


def pickles() -> Iterator[bytes]:
    """Whole, cut, changed, and random bytes; the same ones every time."""
    rng = random.Random(7)
    for protocol in (2, 3, 4, 5):
        good = pickle.dumps(content(), protocol)
        yield good
        for _ in range(150):
            data = bytearray(good[: rng.randrange(len(good))] if rng.random() < 0.3 else good)
            for _ in range(rng.choice((1, 1, 2, 5))):
                data[rng.randrange(2, len(data)) if len(data) > 2 else 0] = rng.choice(
                    b"\x8a\x8cr\x95j]X.\x00\xff\x93c"
                )
            yield bytes(data)
    allowed = scan.BARE + b"\x8a\x8cr\x95hjKqJMGX"
    for _ in range(300):
        yield bytes(rng.choice(allowed) for _ in range(rng.randrange(40)))
        yield rng.randbytes(rng.randrange(40))


def stops(look: opcodes.Look, data: bytes) -> list[int]:
    """Every place where the look stops, when it is made to go on one byte further."""
    found = []
    at = 0
    while at < len(data) and len(found) < 50:
        at = look(data, at)
        found.append(at)
        at += 1
    return found


def walked() -> list[list[int]]:
    """Where `scan.whole` stops in all of them."""
    return [
        stops(opcodes.compiled_look(SIZES[number % len(SIZES)]), data)
        for number, data in enumerate(pickles())
    ]


def shared() -> list[tuple[int, str]]:
    """Where `scan.Sharing` stops at first, and what it makes of what it passed."""
    found = []
    for data in pickles():
        out: list[bytes] = []
        at = scan.Sharing(1000).whole(data, 2, out)
        found.append((at, b"".join(out).hex()))
    return found


if __name__ == "__main__":
    told = {"file": scan.__file__, "compiled": scan.COMPILED, "stops": walked(), "shared": shared()}
    sys.stdout.write(json.dumps(told))
