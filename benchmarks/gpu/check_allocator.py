"""Runs random requests on a real GPU and on the simulator, and compares everything: needs a CUDA build of PyTorch.

    python benchmarks/gpu/check_allocator.py [--steps 3000] [--seed 0] [--gib 4]

Each setting runs in a process of its own. The same requests, frees, uses on a second stream, private pools and emptied
caches go to both; the simulator gets the real base of each new segment and nothing else. Compared are every address,
every OOM, the segment events in order, all of `memory_stats()` and the layout in the snapshot. The process is capped
at `--gib`, so that the card is never full and the way of a request through release and retry is still walked.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
from dataclasses import replace
from typing import Any

SETTINGS = (
    "",
    "expandable_segments:True",
    "max_split_size_mb:64",
    "garbage_collection_threshold:0.6",
    "max_split_size_mb:32,garbage_collection_threshold:0.4",
    "roundup_power2_divisions:8",
    "roundup_power2_divisions:[1:2,16:4,>:0],expandable_segments:True",
    "large_segment_size_mb:64",
)
MIB = 1 << 20
_KINDS = ("segment_alloc", "segment_free", "segment_map", "segment_unmap", "oom")
_SIZES = (300, 5000, 200_000, MIB, 3 * MIB, 9 * MIB, 10 * MIB, 21 * MIB, 33 * MIB, 70 * MIB)


def plan(steps: int, seed: int) -> list[tuple[str, int, int]]:
    """(what, size or index, stream) for each step; indices are taken modulo what is alive."""
    rng = random.Random(seed)  # noqa: S311 - a sequence, no secret
    result = []
    for i in range(steps):
        grow = 52 if i % 600 < 300 else 40
        what = rng.choices(("malloc", "free", "use", "pool", "empty"), (grow, 44, 4, 1, 0.3))[0]
        size = rng.choice(_SIZES) + rng.choice((0, 0, 1, -1, 512, rng.randrange(MIB)))
        result.append((what, size if what == "malloc" else rng.randrange(1 << 30), rng.choice((0, 0, 0, 1))))
    return result


class Card:
    """The real allocator. Synchronises before each request, so that every event has come true."""

    def __init__(self, torch: Any, limit: int) -> None:
        self.torch = torch
        total = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction(limit / total, 0)
        self.streams = [torch.cuda.current_stream(), torch.cuda.Stream()]
        self.pools = hasattr(torch.cuda, "MemPool")
        self.pool: Any = None
        self.inside: Any = None
        self.tensors: dict[int, Any] = {}
        torch.cuda.memory._record_memory_history(max_entries=10_000_000)  # noqa: SLF001 - no public name

    def malloc(self, size: int, stream: int) -> int | None:
        self.torch.cuda.synchronize()
        try:
            with self.torch.cuda.stream(self.streams[stream]):
                tensor = self.torch.empty(size, dtype=self.torch.uint8, device="cuda")
        except self.torch.cuda.OutOfMemoryError:
            return None
        address = int(tensor.data_ptr())
        self.tensors[address] = tensor
        return address

    def free(self, address: int) -> None:
        del self.tensors[address]

    def use(self, address: int, stream: int) -> None:
        self.tensors[address].record_stream(self.streams[stream])

    def toggle_pool(self) -> tuple[int, int] | None:
        """Opens or closes one private pool; its identity, or None where this version has none."""
        if not self.pools:
            return None
        if self.pool is None:
            self.pool = self.torch.cuda.MemPool()
        if self.inside is None:
            self.inside = self.torch.cuda.use_mem_pool(self.pool)
            self.inside.__enter__()
        else:
            self.inside.__exit__(None, None, None)
            self.inside = None
        return tuple(self.pool.id)


def both(torch: Any, text: str, steps: list[tuple[str, int, int]], limit: int) -> list[str]:
    """Walks the real allocator, then the simulator; one line for each difference."""
    card = Card(torch, limit)
    walk: list[tuple[str, Any, Any]] = []
    live: list[int] = []
    for what, number, stream in steps:
        if what == "malloc":
            address = card.malloc(number, stream)
            walk.append((what, (number, card.streams[stream].cuda_stream), address))
            if address is not None:
                live.append(address)
        elif what == "free" and live:
            walk.append((what, live.pop(number % len(live)), None))
            card.free(walk[-1][1])
        elif what == "use" and live:
            walk.append((what, live[number % len(live)], card.streams[1].cuda_stream))
            card.use(walk[-1][1], 1)
        elif what == "pool":
            walk.append((what, card.toggle_pool(), card.inside is not None))
        elif what == "empty":
            torch.cuda.synchronize()
            torch.cuda.empty_cache()
            walk.append((what, None, None))
    torch.cuda.synchronize()
    stats = dict(torch.cuda.memory_stats())
    snapshot = torch.cuda.memory._snapshot()  # noqa: SLF001 - no public name
    version = tuple(int(part) for part in torch.__version__.split(".")[:2])
    total = torch.cuda.get_device_properties(0).total_memory
    made, wrong = follow(text, version, walk, snapshot, limit, total)
    return wrong + compare(made, stats, snapshot)


def follow(
    text: str, version: Any, walk: Any, snapshot: Any, limit: int, total: int
) -> tuple[Any, list[str]]:
    """The simulator on the same walk, with the real bases of new segments."""
    from oomph.memory.allocator.core import CachingAllocator
    from oomph.memory.allocator.driver import Driver
    from oomph.memory.allocator.errors import DeviceOutOfMemory
    from oomph.memory.allocator.settings import AllocatorSettings

    events = [event for event in snapshot["device_traces"][0] if event["action"] in _KINDS]

    class Following(Driver):
        """A new segment starts where the real one's event at the same place says."""

        def reserve(self, size: int, kind: int) -> int:
            place = len(made.segment_events)
            return int(events[place].get("addr", 0)) if place < len(events) else super().reserve(size, kind)

    settings = AllocatorSettings.parse(text, version)
    made = CachingAllocator(settings, driver=Following(), device_total_bytes=total)
    made.set_limit(replace(settings, fraction=limit / total).limit_bytes(total))
    wrong: list[str] = []
    owned = False
    for place, (what, first, second) in enumerate(walk):
        if what == "malloc":
            made.complete_events()
            try:
                address: int | None = made.malloc(*first)
            except DeviceOutOfMemory:
                address = None
            if address != second:
                return made, [f"step {place}: malloc{first} gave {address}, really {second}"]
        elif what == "free":
            made.free(first)
        elif what == "use":
            made.record_stream(first, second)
        elif what == "empty":
            made.empty_cache()
        elif first is not None and second:
            if not owned:
                made.create_pool(first)
                owned = True
            made.begin_pool(first)
        elif first is not None:
            made.end_pool(first)
            made.release_pool(first)
    mine = [(_KINDS[kind], size) for kind, _, size, _ in made.segment_events]
    real = [(event["action"], event["size"]) for event in events]
    if mine != real:
        place = next((i for i, pair in enumerate(zip(mine, real, strict=False)) if pair[0] != pair[1]), -1)
        wrong.append(f"segment events differ at {place} ({len(mine)} and really {len(real)})")
    return made, wrong


def compare(made: Any, stats: dict[str, int], snapshot: Any) -> list[str]:
    """Counters and layout; one line for each difference."""
    mine = made.stats()
    wrong = [
        f"{key}: {mine.get(key)}, really {stats.get(key)}"
        for key in sorted(set(mine) | set(stats))
        if mine.get(key) != stats.get(key)
    ]
    real = [
        (
            s["address"],
            s["total_size"],
            s["stream"],
            [(b["address"], b["size"], b["state"]) for b in s["blocks"]],
        )
        for s in sorted(snapshot["segments"], key=lambda segment: segment["address"])
    ]
    simulated = [
        (s.address, s.size, s.stream, [(b.address, b.size, b.state) for b in s.blocks]) for s in made.layout()
    ]
    if simulated != real:
        wrong.append(f"layouts differ ({len(simulated)} segments and really {len(real)})")
    return wrong


def main() -> int:
    """Runs all settings; 1 when anything differs."""
    parser = argparse.ArgumentParser(description="The simulated allocator against a real one.")
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--gib", type=float, default=4.0)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one is not None:
        import torch

        wrong = both(torch, options.one, plan(options.steps, options.seed), int(options.gib * (1 << 30)))
        print(
            f"{options.one or 'default settings'}: {'the same' if not wrong else f'{len(wrong)} differences'}"
        )
        for line in wrong[:20]:
            print(f"  {line}")
        return int(bool(wrong))
    failed = 0
    for text in SETTINGS:
        environment = {**os.environ, "PYTORCH_CUDA_ALLOC_CONF": text}
        command = [sys.executable, __file__, "--one", text, "--steps", str(options.steps)]
        command += ["--seed", str(options.seed), "--gib", str(options.gib)]
        failed += subprocess.run(command, check=False, env=environment).returncode != 0
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
