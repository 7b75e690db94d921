"""How near `oomph plan` is to published measurements.

    python benchmarks/accuracy.py --points FILE [--verdicts FILE] [--json]

FILE has one measured point a line, with the models' configurations in configs/ beside it. Printed are every row with
its error, and per source, per counter and in all: median, 90th percentile and worst of the absolute relative error, the
bias (mean error with its sign), how many intervals hold the measured size, and their median width; then where the
verdict "fits" was wrong. A row that cannot be predicted is listed under unsupported with the reason.

`--json` gives the same for programs: errors, bias, coverage and width as shares (0.02 is 2 %), sizes in bytes.
`--calibrate` prints the bands of src/oomph/predict/interval.py as they follow from the points.
"""

from __future__ import annotations

import sys
from pathlib import Path


def _run() -> int:
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    from benchmarks.judge.main import main

    return main(__doc__ or "")


if __name__ == "__main__":
    sys.exit(_run())
