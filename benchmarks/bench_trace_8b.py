"""Tracing a LoRA fine-tune of an 8B model: how long, and how much memory of the host.

    python benchmarks/bench_trace_8b.py [--runs 3]

The script is transformers' and TRL's as a user has it (tests/tracing/scripts/sft_lora.py with Llama-3.1-8B, batch 2,
2,048 tokens, three steps). It is traced with `oomph trace`, as a whole process; and the same script is run on the same
fake tensors with nothing recorded (no allocator, no stacks, no categories), for what PyTorch and the libraries take by
themselves. Printed are both times, their ratio (promised: at most 2), the seconds (promised on two cores: 60) and the
most memory that the traced process took (promised: 8 GiB).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SCRIPT = ROOT / "tests" / "tracing" / "scripts" / "sft_lora.py"
ARGUMENTS = ["--model", "meta-llama/Llama-3.1-8B", "--batch", "2", "--length", "2048"]
MOST_SECONDS, MOST_BYTES, MOST_RATIO = 60.0, 8 << 30, 2.0

#: The same process as a trace's child, with a recorder that looks at nothing.
BARE = """
import sys
from oomph.tracing.recorder import kernels, recorder
recorder.Recorder.frames = lambda self: None
def run(self, mode, func, operator, types, args, kwargs):
    return mode.fake(func, types, args, kwargs)
kernels.Kernels.run = run
from pathlib import Path
from oomph.tracing.child.main import main
main(Path(sys.argv[1]))
"""


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    traced, bare, peaks = [], [], []
    for _ in range(options.runs):
        seconds, peak = _run([])
        traced.append(seconds)
        peaks.append(peak)
        bare.append(_run([BARE])[0])
    took, alone, peak = statistics.median(traced), statistics.median(bare), max(peaks)
    print(
        f"8B LoRA, 3 steps: traced {took:.1f} s (at most {MOST_SECONDS:.0f}) / the same fakes, nothing recorded "
        f"{alone:.1f} s = {took / alone:.2f} (at most {MOST_RATIO}); {peak / 2**30:.2f} GiB of host memory (at most "
        f"{MOST_BYTES >> 30})"
    )
    return int(took > MOST_SECONDS or peak > MOST_BYTES or took / alone > MOST_RATIO)


def _run(bare: list[str]) -> tuple[float, int]:
    """Seconds of the whole process, and the most bytes that it took."""
    from oomph.hardware.names import gpu
    from oomph.tracing.child.request import Request, read_outcome, write
    from oomph.tracing.settings import TraceSettings
    from oomph.tracing.target.parse import parse

    card = gpu("a100-80gb")
    settings = TraceSettings(
        gpu=card, torch=(2, 13), capacity_bytes=card.total_bytes, device_bytes=card.total_bytes, steps=3
    )
    with tempfile.TemporaryDirectory() as folder:
        asked, outcome = Path(folder) / "request.json", Path(folder) / "outcome.json"
        request = Request(
            target=parse([str(SCRIPT), *ARGUMENTS]),
            settings=settings,
            folder=folder,
            out=str(Path(folder) / "trace.pickle"),
            outcome=str(outcome),
        )
        write(request, asked)
        command = ["-c", *bare, str(asked)] if bare else ["-m", "oomph.tracing.child", str(asked)]
        began = time.perf_counter()
        subprocess.run(
            [sys.executable, *command],
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        )
        seconds = time.perf_counter() - began
        answer = read_outcome(outcome)
        if answer is None or answer.ending.value not in ("finished", "steps"):
            raise SystemExit(f"the script did not end as it should: {json.dumps(str(answer))}")
        return seconds, answer.peak_host_bytes or 0


if __name__ == "__main__":
    sys.exit(main())
