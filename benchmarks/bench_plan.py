"""How long a plan takes.

    python benchmarks/bench_plan.py [--runs 7]

Printed are, with what is promised:
- the allocated peaks of a plan in a process that has planned before: Llama-3.1-8B on 8 GPUs with FSDP, each time with
  another batch and sequence, so that no answer is remembered (50 ms);
- the same with the replay through the allocator, for reserved bytes (1 s);
- a whole `oomph plan` process, beside `python -c 'import numpy'` (0.5 s);
- Llama-3.1-405B on 1,024 ranks over the 8B on 8, peaks and replay (3 times).
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from oomph.job.model import Batch, Framework, Hardware, Job, Optimizer, Parallel, Precision
from oomph.job.names import model
from oomph.predict.plan import plan

ROOT = Path(__file__).resolve().parent.parent
MOST_WARM, MOST_REPLAY, MOST_COLD, MOST_RATIO = 0.050, 1.0, 0.5, 3.0
SETTINGS = {"--gpu": "a100-80gb", "--gpus": "8", "--batch": "2", "--seq": "4096"}
COMMAND = ["plan", "meta-llama/Llama-3.1-8B", "--fsdp", *(part for pair in SETTINGS.items() for part in pair)]


@dataclass(frozen=True)
class Took:
    """Seconds on the clock, and seconds that the processor worked (less than the former where it was shared)."""

    wall: float
    cpu: float

    def __str__(self) -> str:
        return f"{self.wall * 1e3:.0f} ms ({self.cpu * 1e3:.0f} of the processor)"

    @classmethod
    def median(cls, several: Iterable[Took]) -> Took:
        """The median of each."""
        taken = list(several)
        return cls(
            statistics.median(each.wall for each in taken), statistics.median(each.cpu for each in taken)
        )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=7)
    runs = parser.parse_args().runs
    small = job("meta-llama/Llama-3.1-8B", 8)
    large = job("meta-llama/Llama-3.1-405B", 1024)
    over = []
    times = {}
    for name, asked in (("8B on 8", small), ("405B on 1,024", large)):
        for what, replay in (("peaks", False), ("replay", True)):
            times[name, what] = planned(asked, runs, replay=replay)
            print(f"{name} ranks, {what}: {times[name, what]}")
    over += checked("a warm plan's peaks", times["8B on 8", "peaks"], MOST_WARM)
    over += checked("with the replay", times["8B on 8", "replay"], MOST_REPLAY)
    for what in ("peaks", "replay"):
        ratio = times["405B on 1,024", what].cpu / times["8B on 8", what].cpu
        print(f"{what}: 405B on 1,024 ranks takes {ratio:.2f} x 8B on 8 (at most {MOST_RATIO:.0f})")
        over += [what] if ratio > MOST_RATIO else []
    numpy = process(["-c", "import numpy"], runs)
    quick = process(["-m", "oomph", *COMMAND, "--no-replay"], runs)
    whole = process(["-m", "oomph", *COMMAND], runs)
    print(f"python -c 'import numpy': {numpy}")
    print(f"oomph plan --no-replay: {quick}, {quick.cpu / numpy.cpu:.1f} x that")
    print(f"oomph plan: {whole}, {whole.cpu / numpy.cpu:.1f} x that")
    over += checked("a cold `oomph plan --no-replay` process", quick, MOST_COLD)
    over += checked("a cold `oomph plan` process", whole, MOST_COLD)
    return int(bool(over))


def job(name: str, ranks: int) -> Job:
    """FSDP of the whole model in bf16 with AdamW, as torchtitan trains."""
    return Job(
        model=model(name),
        precision=Precision(weights="bf16", compute="bf16"),
        optimizer=Optimizer(name="adamw", impl="fused"),
        parallel=Parallel(strategy="fsdp2_full", data=ranks),
        framework=Framework(name="transformers"),
        hardware=Hardware(gpu="h100-80gb", gpus=ranks, per_node=8),
    )


def planned(asked: Job, runs: int, *, replay: bool) -> Took:
    """A plan, each of a batch that was not planned before."""
    import msgspec

    def once(number: int) -> Callable[[], object]:
        batch = Batch(micro=1 + number % 3, sequence=2048 + 64 * number)
        changed = msgspec.structs.replace(asked, batch=batch)
        return lambda: plan(changed, replay)

    offset = 1000 if replay else 0
    once(offset)()
    return Took.median(timed(once(offset + 1 + number)) for number in range(runs))


def timed(call: Callable[[], object], who: int = resource.RUSAGE_SELF) -> Took:
    """What a call takes."""
    began, before = time.perf_counter(), resource.getrusage(who)
    call()
    after = resource.getrusage(who)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Took(time.perf_counter() - began, cpu)


def process(arguments: list[str], runs: int) -> Took:
    """A Python process, the files read before."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}

    def run() -> None:
        done = subprocess.run(
            [sys.executable, *arguments], capture_output=True, text=True, env=environment, check=False
        )
        if done.returncode not in (0, 1):
            raise SystemExit(f"{' '.join(arguments)} failed: {done.stderr[-500:]}")

    run()
    return Took.median(timed(run, resource.RUSAGE_CHILDREN) for _ in range(runs))


def checked(what: str, took: Took, most: float) -> list[str]:
    """Prints a time beside the promise; the name where it is broken."""
    print(f"{what}: {took} (at most {most * 1e3:.0f} ms)")
    return [what] if took.wall > most else []


if __name__ == "__main__":
    sys.exit(main())
