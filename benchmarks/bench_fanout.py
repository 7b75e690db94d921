"""No promise but a measurement: reading the logs of 1,024 ranks, 1 MB each, here and by two local processes.

What is compared is `oomph.evidence.read`: files to facts, without the diagnosis. `--mb 64 --files 32` shows it for a
few large logs, where most of the time goes into the search that the processes share.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from bench_explain_common import write_ranks

from oomph.evidence.read import read
from oomph.trial.engines.local import LocalEngine
from oomph.trial.fanout.logs import reads_elsewhere


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--files", type=int, default=1024, help="number of ranks")
    parser.add_argument("--mb", type=float, default=1, help="size of each log in MB (10**6 bytes)")
    parser.add_argument("--jobs", type=int, default=2, help="local processes")
    parser.add_argument("--runs", type=int, default=2, help="the best of so many runs counts")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        write_ranks(Path(folder), options.files, int(options.mb * 10**6), [options.files // 2])
        here = far = float("inf")
        for _ in range(options.runs):
            begin = time.perf_counter()
            alone = read([folder])
            middle = time.perf_counter()
            engine = LocalEngine(options.jobs)
            together = read(
                [folder], elsewhere=reads_elsewhere(engine, lambda text: print(text, file=sys.stderr))
            )
            engine.close()
            end = time.perf_counter()
            if alone != together:
                raise SystemExit("the answers differ")
            here, far = min(here, middle - begin), min(far, end - middle)
    print(
        f"{options.files} logs of {options.mb:g} MB: {here:.2f} s here, {far:.2f} s by {options.jobs} local processes, "
        f"ratio {here / far:.2f}"
    )


if __name__ == "__main__":
    main()
