"""Reading a memory snapshot, against `pickle.load` of the same file.

    python benchmarks/bench_snapshot_read.py [--events 1000000] [--file SNAPSHOT]

Without a file, a snapshot is written first: a training loop's allocations, each event with a list of its own over
shared frames, as PyTorch writes them. Both loads run in processes of their own with the garbage collector off, in
turns; the best of three counts, in processor time. Prints the ratio of times and that of peak memory: what checking a
file and turning it into columns costs beyond trusting it.
"""

from __future__ import annotations

import argparse
import json
import pickle
import random
import subprocess
import sys
import tempfile
from pathlib import Path

_TURNS = 3
_MIB = 1 << 20
_MEASURE = """
import gc, json, resource, sys, time
gc.disable()
path = sys.argv[1]
if sys.argv[2] == "oomph":
    from oomph.evidence.snapshot import read as load
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


def measure(path: Path, how: str) -> tuple[float, float]:
    """Processor seconds and peak memory (in the system's unit) of one load."""
    command = [sys.executable, "-c", _MEASURE, str(path), how]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
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
        best: dict[str, tuple[float, float]] = {}
        for _ in range(_TURNS):
            for how in ("pickle", "oomph"):
                best[how] = min(best.get(how, (float("inf"), 0.0)), measure(path, how))
        size = path.stat().st_size / _MIB
    load, read = best["pickle"], best["oomph"]
    print(f"{size:.0f} MiB: pickle.load {load[0]:.2f} s, oomph {read[0]:.2f} s")
    print(f"time  {read[0] / load[0]:.2f} x pickle.load")
    print(f"memory {read[1] / load[1]:.2f} x pickle.load")


if __name__ == "__main__":
    main()
