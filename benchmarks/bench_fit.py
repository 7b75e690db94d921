"""How long `oomph plan --fit` searches.

    python benchmarks/bench_fit.py [--runs 3]

Llama-3.1-8B, full fine-tuning on 8 GPUs of 24 GB, a job that does not fit: the search over combinations of changes is
timed in a process that has planned before, each time of a job that was not searched before. Printed are how many
candidates it weighed, its seconds without and with the replay of the best few, and the seconds that 5,000 candidates
take at that pace (promised: 5).
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time

from oomph.job.model import Batch, Framework, Hardware, Job, Parallel, Precision
from oomph.job.names import model
from oomph.predict.plan import plan
from oomph.remedy.search import fit

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
    alone = statistics.median(timed(job(2048 + 256 * number), replay=False) for number in range(runs))
    whole = statistics.median(timed(job(2176 + 256 * number), replay=True) for number in range(runs))
    pace = alone / found.tried * CANDIDATES
    print(
        f"{found.tried} candidates in {alone:.2f} s, {whole:.2f} s with the replay of the best: {CANDIDATES:,} in "
        f"{pace:.2f} s (at most {MOST_SECONDS:.0f})"
    )
    return int(pace > MOST_SECONDS)


def timed(asked: Job, *, replay: bool) -> float:
    """Seconds of a search."""
    began = time.perf_counter()
    fit(asked, replay=replay)
    return time.perf_counter() - began


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
