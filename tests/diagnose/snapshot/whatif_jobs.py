"""Jobs whose memory is written out, recorded, and asked what if."""

from __future__ import annotations

from oomph.diagnose.snapshot.model import Trial, WhatIf
from oomph.diagnose.snapshot.whatif import what_if
from oomph.evidence.snapshot import allocator_settings
from oomph.memory.allocator.settings import AllocatorSettings
from oomph.units import MIB
from tests.memory.replay.recorder import Recorder

PLAIN = AllocatorSettings(torch=(2, 6))


def ask(recorder: Recorder, *asked: str, last: int | None = None, **given: object) -> WhatIf:
    snapshot = recorder.snapshot(last)
    settings = allocator_settings(snapshot)
    return what_if(snapshot.devices[0], settings, asked=asked or ("all",), **given)  # type: ignore[arg-type]


def named(answer: WhatIf, setting: str) -> Trial:
    return next(trial for trial in answer.trials if trial.setting == setting)


def free(recorder: Recorder, address: int | None) -> None:
    recorder.free([known for known, *_ in recorder.live].index(address or -1))


def pinned(unit: int, capacity: int | None = None) -> Recorder:
    """Five segments of 200 units, each with a block of 2 at its head that stays; then a request of 400.

    A block of 200 is taken and freed, 2 split its head off, and 198 fill the rest, so that the next 200 need a new
    segment. In the end the 198 are freed: 10 units are in use, in five holes of 198 lie 990, 1000 are reserved.
    """
    recorder = Recorder(PLAIN, capacity)
    rests = []
    for _ in range(5):
        free(recorder, recorder.malloc(200 * unit))
        recorder.malloc(2 * unit)
        rests.append(recorder.malloc(198 * unit))
    for rest in rests:
        free(recorder, rest)
    recorder.malloc(400 * unit)
    return recorder


def full_card() -> Recorder:
    """1000 MiB, 900 in use, and a request of 200."""
    recorder = Recorder(PLAIN, 1000 * MIB)
    for _ in range(4):
        recorder.malloc(300 * MIB)
    return recorder


def mixed() -> Recorder:
    """1300 MiB. Blocks of 600 MiB come and go; small ones that stay settle in what they leave.

    600 freed, 30 at its head; 600 need a segment of their own; freed, another 30 go into the first. Then 800: the
    first segment is pinned, the second is given back: 600 + 800 are 100 too many.
    """
    recorder = Recorder(PLAIN, 1300 * MIB)
    for _ in range(2):
        free(recorder, recorder.malloc(600 * MIB))
        recorder.malloc(30 * MIB)
    recorder.malloc(800 * MIB)
    return recorder
