"""How long `oomph plan --fit` searches.

    python benchmarks/bench_fit.py [--runs 3]

Llama-3.1-8B, full fine-tuning on 8 GPUs of 24 GB, a job that does not fit: the search over combinations of changes is
timed in a process that has planned before, each time of a job that was not searched before. Printed are how many
candidates it weighed, and its seconds without and with the replay of the best few. Then a search in which every
change is allowed, which weighs 5,000 candidates (promised: 5 s). The first is over sooner, and slower for each
candidate: what a search does once weighs more in it; what 5,000 would take at its pace is printed, and no promise.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Collection

from oomph.job.model import Batch, Framework, Hardware, Job, Parallel, Precision
from oomph.job.names import model
from oomph.predict.plan import plan
from oomph.remedy.changes import ALLOWANCES
from oomph.remedy.search import MOST, fit

CANDIDATES, MOST_SECONDS = 5000, 5.0


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=3)
    runs = parser.parse_args().runs
    plan(job(1024), False)
    found = fit(job(1024), replay=False)
    if not found.tried:
        raise SystemExit("the search weighed nothing: the job fits, or nothing applies")
    alone = timed(runs, 2048, replay=False)
    whole = timed(runs, 2176, replay=True)
    pace, worked = (seconds / found.tried * CANDIDATES for seconds in alone)
    print(
        f"{found.tried} candidates in {alone[0]:.2f} s, {whole[0]:.2f} s with the replay of the best: "
        f"at that pace {CANDIDATES:,} in {pace:.2f} s, {worked:.2f} of the processor"
    )
    everything = timed(runs, 4096, replay=False, allow=ALLOWANCES, most=CANDIDATES)
    print(
        f"with every change allowed {CANDIDATES:,} in {everything[0]:.2f} s, {everything[1]:.2f} of the processor "
        f"(at most {MOST_SECONDS:.0f})"
    )
    return int(everything[0] > MOST_SECONDS)


def timed(
    runs: int, sequence: int, *, replay: bool, allow: Collection[str] = (), most: int = MOST
) -> tuple[float, float]:
    """Median seconds of a search on the clock, and those that the processor worked."""
    clock, processor = [], []
    for number in range(runs):
        asked = job(sequence + 256 * number)
        began, worked = time.perf_counter(), time.process_time()
        found = fit(asked, replay=replay, allow=allow, most=most)
        clock.append(time.perf_counter() - began)
        processor.append(time.process_time() - worked)
        if most != MOST and found.tried < most:
            raise SystemExit(f"the search ended after {found.tried:,} candidates")
    return statistics.median(clock), statistics.median(processor)


def job(sequence: int) -> Job:
    """A full fine-tuning in bf16 autocast that replicas of 24 GB cannot hold."""
    return Job(
        model=model("meta-llama/Llama-3.1-8B"),
        precision=Precision(weights="fp32", compute="bf16", autocast=True),
        batch=Batch(micro=4, sequence=sequence),
        parallel=Parallel(strategy="ddp", data=8),
        framework=Framework(name="transformers"),
        hardware=Hardware(gpu="l4", gpus=8, per_node=8),
    )


if __name__ == "__main__":
    sys.exit(main())
