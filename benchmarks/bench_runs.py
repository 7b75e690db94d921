"""A query over 500 recorded runs with the index up to date, against reading all of them; and the fingerprint.

    python benchmarks/bench_runs.py

Prints how many times quicker the index answers, how long the fingerprint of this process takes (it may take 100 ms),
and how long a run takes to be held against 500 others.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from oomph.diagnose.runs.diff import diff
from oomph.recording.fingerprint import fingerprint
from oomph.recording.store import Store
from tests.recording_store.fakes import write_run

_RUNS, _STEPS = 500, 50
_QUERY = "phase.backward.peak > 7GiB and outcome = completed and versions.torch ~ 2.6"


def timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def ask(root: Path) -> int:
    with Store([root]) as store:
        return len(store.rows(_QUERY))


def main() -> int:
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        for number in range(_RUNS):
            write_run(root, number, steps=_STEPS, settings={"seed": str(number)})
        first = timed(lambda: ask(root))
        later = statistics.median(timed(lambda: ask(root)) for _ in range(5))
        with Store([root]) as store:
            rows = store.rows()
        compared = timed(lambda: diff(rows[0], rows[1:]))
    prints = statistics.median(timed(lambda: fingerprint({"a": 1}, command=["x"])) for _ in range(5))
    print(f"{_RUNS} runs: read {first:.2f} s, asked again {later:.2f} s: {first / later:.0f} times quicker")
    print(
        f"fingerprint of this process: {prints * 1000:.0f} ms; one run against {_RUNS - 1}: {compared * 1000:.0f} ms"
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
