"""Promise: the logs of 1,024 ranks, 1 MB each, are explained in one command, at tens of milliseconds per file at most.

Both kinds of failure are measured: one rank fails and the others die of it, and every rank fails alike.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from bench_explain_common import compare, write_ranks


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--files", type=int, default=1024, help="number of ranks")
    parser.add_argument("--mb", type=float, default=1, help="size of each log in MB (10**6 bytes)")
    parser.add_argument("--runs", type=int, default=2, help="the best of so many runs counts")
    options = parser.parse_args()
    middle = options.files // 2
    for words, failed in (("one rank fails", [middle]), ("all ranks fail", list(range(options.files)))):
        with tempfile.TemporaryDirectory() as folder:
            write_ranks(Path(folder), options.files, int(options.mb * 10**6), failed)
            paths = sorted(str(path) for path in Path(folder).iterdir())
            name = f"{options.files} logs of {options.mb:g} MB, {words}"
            compare(name, paths, [folder], options.runs)


if __name__ == "__main__":
    main()
