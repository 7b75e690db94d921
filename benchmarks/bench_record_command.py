"""What `oomph record -- CMD` costs: 100 MB of output through it against the same through `cat`, and its start.

    python benchmarks/bench_record_command.py [--megabytes N] [--repeat N]

The command prints lines as a training log has them (80 bytes), as fast as it can; both sides write to the same kind of
file. Of several rounds the fastest of each side counts: the machine may do other things. The last line is the ratio.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

LINE = b"step 1234 | loss 2.3456 | grad norm 1.2345 | 12345 tokens/s | 34.56 GiB peak...\n"
WRITER = """
import os, sys
lines = {line!r} * 819
left = int(sys.argv[1])
while left > 0:
    left -= os.write(1, lines)
"""


def timed(words: list[str], out: Path) -> float:
    with out.open("wb") as file:
        began = time.perf_counter()
        subprocess.run(words, stdout=file, stderr=subprocess.DEVNULL, check=True)
        return time.perf_counter() - began


def main() -> int:
    parser = argparse.ArgumentParser(description="oomph record against cat")
    parser.add_argument("--megabytes", type=int, default=100)
    parser.add_argument("--repeat", type=int, default=5)
    asked = parser.parse_args()
    size = asked.megabytes * 1_000_000
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        writer = [sys.executable, "-S", "-c", WRITER.format(line=LINE), str(size)]
        record = [sys.executable, "-m", "oomph", "record", "-q", "--run-dir"]
        through_cat = ["sh", "-c", '"$@" | cat', "sh", *writer]
        alone, cat, ours, nothing, start = [], [], [], [], []
        for turn in range(asked.repeat):
            alone.append(timed(writer, out))
            cat.append(timed(through_cat, out))
            ours.append(timed([*record, f"{folder}/run{turn}", "--", *writer], out))
            nothing.append(timed(["true"], out))
            start.append(timed([*record, f"{folder}/start{turn}", "--", "true"], out))
            kept = sum(file.stat().st_size for file in Path(folder, f"run{turn}").glob("job*.out"))
            assert kept == out.stat().st_size or kept >= size, "all of it is kept"
    begin = min(start) - min(nothing)
    print(f"{asked.megabytes} MB to a file                    {min(alone):7.3f} s")
    print(f"the same through cat               {min(cat):7.3f} s")
    print(f"the same through oomph record      {min(ours):7.3f} s, of it {begin:.3f} s to start and to end")
    print(f"oomph record, its start left out, against cat: {(min(ours) - begin) / min(cat):.2f} x")
    return 0


if __name__ == "__main__":
    sys.exit(main())
