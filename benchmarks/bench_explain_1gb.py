"""Promise: a log of 1 GB is explained within 5 times the time of `grep -cF` with three patterns, in 200 MB.

python benchmarks/bench_explain_1gb.py             # 1000 MB; --mb to shrink
python benchmarks/bench_explain_1gb.py --file LOG  # on a log of your own that ends in a failure
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from bench_explain_common import compare, write_console


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mb", type=float, default=1000, help="size of the log in MB (10**6 bytes)")
    parser.add_argument("--runs", type=int, default=3, help="the best of so many runs counts")
    parser.add_argument("--file", type=Path, help="use this log instead of writing one")
    options = parser.parse_args()
    if options.file is not None:
        compare(options.file.name, [str(options.file)], [str(options.file)], options.runs)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "console.log"
        write_console(path, int(options.mb * 10**6))
        compare(f"one log of {options.mb:.0f} MB", [str(path)], [str(path)], options.runs)


if __name__ == "__main__":
    main()
