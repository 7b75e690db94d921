"""Reading a memory snapshot, against `pickle.load` of the same file.

    python benchmarks/bench_snapshot_read.py [--events 1000000] [--file SNAPSHOT]

Without a file, a snapshot is written first: a training loop's allocations, each event with a list of its own over
shared frames, as PyTorch writes them. Both loads run in processes of their own with the garbage collector off, in
turns; the best of three counts, in processor time. Prints the ratio of times and that of peak memory: what checking a
file, turning it into columns and numbering the stacks of all allocations costs beyond trusting it; with the compiled
modules of a wheel, where there is a compiler, and for the checkout, which is pure Python.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import random
import subprocess
import sys
import tempfile
from pathlib import Path

from bench_allocator import ROOT, compiled_source

_TURNS = 3
_MIB = 1 << 20
_MEASURE = """
import gc, json, resource, sys, time
gc.disable()
path = sys.argv[1]
if sys.argv[2] != "pickle":
    from oomph.evidence.snapshot import read
    from oomph.memory.timeline import Kind
    def load(path):
        snapshot = read(path)
        for device in snapshot.devices:
            device.timeline.stack_ids(device.timeline.positions(Kind.ALLOC))
        return snapshot
else:
    import pickle
    def load(path):
        with open(path, "rb") as file:
            return pickle.load(file)
begun = time.process_time()
kept = load(path)
seconds = time.process_time() - begun
print(json.dumps([seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss]))
"""


def write(path: Path, events: int) -> None:
    """A snapshot of about `events` events."""
    rng = random.Random(0)  # noqa: S311 - a sequence, no secret
    frames = [{"name": f"layer_{i}", "filename": f"/code/part_{i % 40}.py", "line": i} for i in range(600)]
    stacks = [rng.sample(frames, rng.randint(8, 16)) for _ in range(300)]
    trace: list[dict[str, object]] = []
    base = 0x7F0000000000
    while len(trace) < events:
        size = rng.choice((512, 4096, 3 * _MIB, 12 * _MIB))
        for action in ("alloc", "free_requested", "free_completed"):
            trace.append(
                {
                    "action": action,
                    "addr": base + rng.randrange(1 << 12) * 512,
                    "size": size,
                    "stream": 0,
                    "time_us": 1_700_000_000_000_000 + len(trace),
                    "compile_context": "N/A",
                    "frames": list(rng.choice(stacks)),
                }
            )
    with path.open("wb") as file:
        pickle.dump({"segments": [], "device_traces": [trace], "allocator_settings": {}}, file)


def measure(path: Path, how: str, source: Path) -> tuple[float, float]:
    """Processor seconds and peak memory (in the system's unit) of one load, by oomph as it is in `source`."""
    command = [sys.executable, "-c", _MEASURE, str(path), how]
    environment = {**os.environ, "PYTHONPATH": str(source)}
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    seconds, memory = json.loads(done.stdout)
    return seconds, memory


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--file", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = options.file or Path(folder) / "snapshot.pickle"
        if options.file is None:
            write(path, options.events)
        sources = {"pickle": ROOT / "src", "pure": ROOT / "src"}
        try:
            sources["compiled"] = compiled_source(Path(folder))
        except (OSError, subprocess.SubprocessError) as error:
            print(f"compiled: not on this machine ({type(error).__name__})")
        best: dict[str, tuple[float, float]] = {}
        for _ in range(_TURNS):
            for how, source in sources.items():
                best[how] = min(best.get(how, (float("inf"), 0.0)), measure(path, how, source))
        size = path.stat().st_size / _MIB
    load = best.pop("pickle")
    print(f"{size:.0f} MiB: pickle.load {load[0]:.2f} s")
    for how, (seconds, memory) in best.items():
        print(f"{how}: {seconds:.2f} s")
        print(f"  time   {seconds / load[0]:.2f} x pickle.load")
        print(f"  memory {memory / load[1]:.2f} x pickle.load")


if __name__ == "__main__":
    main()
