"""The simulated allocator: events per second, compiled and pure, and how time grows up to 5,000,000 events.

    python benchmarks/bench_allocator.py [--events 5000000] [--expandable]

Both ways run in processes of their own, on a sequence like a training job's: parameters that stay, and steps that
allocate layer by layer and free in reverse, with temporaries between. An event is one request or one free; times are
of the processor, so that neighbours on the machine count less. Prints the compiled core's speed over the pure one's,
and time per event at all events over that at a tenth (1.0: linear).
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MIB = 1 << 20
_LAYERS = 48


def script(events: int) -> list[int]:
    """The sequence: n > 0 asks for n bytes, -k frees the k-th youngest of what is alive."""
    rng = random.Random(0)  # noqa: S311 - a sequence, no secret
    steps: list[int] = [rng.choice([4 * MIB, 16 * MIB, 32 * MIB, 3000]) for _ in range(4 * _LAYERS)]
    while len(steps) < events:
        batch = rng.choice([6, 8, 8, 8, 10])
        alive = 0
        for _ in range(_LAYERS):
            for size in (batch * 2 * MIB, batch * 700_000, batch * 8 * MIB, 5000 + rng.randrange(3000)):
                steps += [size, size // 2, -1]
                alive += 1
        for _ in range(_LAYERS):
            steps += [batch * 4 * MIB, 40_000, -1, -2, *[-1] * 3]
            alive -= 3
        steps += [-1] * alive
    return steps[:events]


def measure(count: int, expandable: bool) -> dict[str, object]:
    """Seconds for the whole sequence and for its first tenth."""
    from oomph.memory.allocator import core
    from oomph.memory.allocator.settings import AllocatorSettings

    steps = script(count)
    gc.disable()
    seconds = {}
    peak = 0
    for part in (steps[: count // 10], steps):
        made = core.CachingAllocator(AllocatorSettings(expandable_segments=expandable))
        alive: list[int] = []
        begun = time.process_time()
        for step in part:
            if step > 0:
                alive.append(made.malloc(step))
            else:
                made.free(alive.pop(step))
        seconds[len(part)] = time.process_time() - begun
        peak = made.peak_reserved_bytes
    return {"core": Path(core.__file__).suffix, "seconds": seconds, "peak": peak}


def run(source: Path, count: int, expandable: bool) -> dict[str, object]:
    """`measure` in another process that imports oomph from `source`."""
    command = [sys.executable, __file__, "--measure", "--events", str(count)]
    environment = {**os.environ, "PYTHONPATH": str(source)}
    result = subprocess.run(
        command + ["--expandable"] * expandable, env=environment, capture_output=True, text=True, check=True
    )
    found: dict[str, object] = json.loads(result.stdout)
    return found


def compiled_source(folder: Path) -> Path:
    """A copy of the package with its compiled modules. Raises as `hatch_build.compiled` where there is no compiler."""
    sys.path.insert(0, str(ROOT))
    import hatch_build

    copy = folder / "src"
    shutil.copytree(ROOT / "src", copy, ignore=shutil.ignore_patterns("__pycache__"))
    for place, path in hatch_build.compiled(ROOT).items():
        shutil.copy2(path, copy / place)
    return copy


def report(name: str, found: dict[str, object]) -> float:
    """Prints one way's numbers; seconds per event."""
    seconds = found["seconds"]
    assert isinstance(seconds, dict)
    each: dict[int, float] = {int(count): spent / int(count) for count, spent in seconds.items()}
    least, most = min(each), max(each)
    print(f"{name}: {1 / each[most]:,.0f} events/s over {most:,} events")
    print(f"  time per event, {most:,} to {least:,} events: {each[most] / each[least]:.2f}x (1.0: linear)")
    return each[most]


def main() -> None:
    parser = argparse.ArgumentParser(description="Events per second of the simulated allocator.")
    parser.add_argument("--events", type=int, default=5_000_000)
    parser.add_argument("--expandable", action="store_true")
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(options.events, options.expandable)))
        return
    pure = run(ROOT / "src", options.events, options.expandable)
    slow = report("pure Python", pure)
    with tempfile.TemporaryDirectory() as folder:
        try:
            source = compiled_source(Path(folder))
        except (OSError, subprocess.SubprocessError) as error:
            print(f"compiled: not on this machine ({type(error).__name__})")
            return
        fast = run(source, options.events, options.expandable)
    quick = report("compiled", fast)
    same = "the same peak" if fast["peak"] == pure["peak"] else "ANOTHER PEAK"
    print(f"compiled over pure: {slow / quick:.1f}x ({same})")


if __name__ == "__main__":
    main()
