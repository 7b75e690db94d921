"""One long deterministic sequence; prints which core ran it and everything that came of it, as one JSON line."""

from __future__ import annotations

import hashlib
import json
import random
import sys

from oomph.memory.allocator import core
from oomph.memory.allocator.errors import DeviceOutOfMemory
from oomph.memory.allocator.settings import AllocatorSettings

MIB = 2**20
SETTINGS = (
    "",
    "expandable_segments:True",
    "max_split_size_mb:32,garbage_collection_threshold:0.5,per_process_memory_fraction:0.9",
    "roundup_power2_divisions:4,expandable_segments:True",
)


def run(text: str, count: int = 4000) -> dict[str, object]:
    """Addresses, events, layout and counters after `count` steps; the first as a digest."""
    rng = random.Random(11)
    made = core.CachingAllocator(AllocatorSettings.parse(text), 900 * MIB)
    live: list[int] = []
    answers: list[object] = []
    for _ in range(count):
        kind = rng.choices(["malloc", "free", "use", "done", "empty"], [50, 44, 4, 2, 0.2])[0]
        if kind == "malloc":
            size = rng.choice([700, 5000, 600_000, 3 * MIB, 11 * MIB, 33 * MIB]) + rng.randrange(2000)
            try:
                live.append(made.malloc(size, rng.choice([0, 0, 0, 1])))
                answers.append(live[-1])
            except DeviceOutOfMemory as error:
                answers.append(str(error))
        elif kind == "free" and live:
            made.free(live.pop(rng.randrange(len(live))))
        elif kind == "use" and live:
            made.record_stream(rng.choice(live), 2)
        elif kind == "done":
            made.complete_events()
        elif kind == "empty":
            made.empty_cache()
    layout = [(s.key(), [b.key() for b in s.blocks]) for s in made.layout()]
    everything = json.dumps([answers, made.segment_events, layout])
    return {**made.stats(), "digest": hashlib.sha256(everything.encode()).hexdigest()}


def main() -> None:
    """Prints the file of the core, and the outcome for each of `SETTINGS`."""
    sys.stdout.write(json.dumps({"core": core.__file__, "runs": {text: run(text) for text in SETTINGS}}))


if __name__ == "__main__":
    main()
