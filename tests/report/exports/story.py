"""A snapshot whose every event is written out, for exports whose content is arithmetic."""

from __future__ import annotations

import pickle
from typing import Any

from oomph.diagnose.snapshot.analysis import Analysis
from oomph.evidence.snapshot import from_bytes
from oomph.units import MIB
from tests.evidence.snapshot.build import BASE, block, event, segment, snapshot

MODEL = [
    {"name": "forward", "filename": "/home/jane/model.py", "line": 12},
    {"name": "main", "filename": "/home/jane/train.py", "line": 40},
]
LOSS = [
    {"name": "loss", "filename": "/home/jane/loss.py", "line": 7},
    {"name": "main", "filename": "/home/jane/train.py", "line": 41},
]
#: What a function may be called in a file that somebody made.
HOSTILE = [
    "=cmd|' /C calc'!A0",
    'a"b,c',
    "two\nlines\r\n",
    "\x1b[31mred\x00",
    "lone \ud800 half",
    "",
    "x" * 20_000,
]


def trace() -> list[dict[str, Any]]:
    """A segment of 20 MiB; blocks of 4 and 6 MiB at its beginning, the first of which is freed at the end."""
    return [
        event("segment_alloc", BASE, 20 * MIB, time_us=10),
        event("alloc", BASE, 4 * MIB, frames=MODEL, time_us=20),
        event("alloc", BASE + 4 * MIB, 6 * MIB, frames=LOSS, time_us=30),
        event("free_requested", BASE, 4 * MIB, frames=MODEL, time_us=40),
        event("free_completed", BASE, 4 * MIB, frames=MODEL, time_us=50),
    ]


def content(**more: Any) -> dict[str, Any]:
    blocks = [
        block(BASE, 4 * MIB, "inactive"),
        block(BASE + 4 * MIB, 6 * MIB, frames=LOSS),
        block(BASE + 10 * MIB, 10 * MIB, "inactive"),
    ]
    return {**snapshot([segment(blocks=blocks, segment_type="large")], [trace()]), **more}


def analysis(source: str = "run.pickle", at: str | None = None, **more: Any) -> Analysis:
    """Its peak of allocated bytes is 10 MiB, after event 2."""
    return Analysis(from_bytes(pickle.dumps(content(**more)), source), 0, at)


def hostile() -> Analysis:
    """One block of 512 bytes for each hostile name, all alive; the names are files too."""
    events, blocks = [event("segment_alloc", BASE, 2 * MIB)], []
    for number, name in enumerate(HOSTILE):
        frames = [{"name": name, "filename": f"{name}.py", "line": number + 1}]
        events.append(event("alloc", BASE + 512 * number, 512, frames=frames))
        blocks.append(block(BASE + 512 * number, 512, frames=frames))
    rest = 512 * len(HOSTILE)
    blocks.append(block(BASE + rest, 2 * MIB - rest, "inactive"))
    return Analysis(from_bytes(pickle.dumps(snapshot([segment(blocks=blocks)], [events])), "odd\n.pickle"), 0)
