"""Ten small scripts, run for real and traced, and how far apart they are: needs a GPU and a CUDA build of PyTorch.

    python benchmarks/gpu/trace_vs_real.py [--only NAME]... [--keep FOLDER] [--budget SECONDS]

Each script of `traced/` runs twice: once on the GPU with torch's memory history on, once traced with the GPU hidden
from it. The table shows the peak of allocated and of reserved memory, real and traced, and up to which event both do
the same. About a minute a script; after the budget (720 s) no further one is begun. Libraries that are not installed
leave their script out, by name. The exit code is 1 when any peak of allocated memory is off by more than 0.5 % (0.05 %
above 6 GB) or any reserved peak is none of those that eight orders of addresses give.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SCRIPTS = sorted((HERE / "traced").glob("*.py"))
#: What a script needs besides torch, by a word in its first line.
NEEDS = ("transformers", "peft", "bitsandbytes", "diffusers")

RECORD = """
import runpy, sys, torch
torch.cuda.memory._record_memory_history(max_entries=2_000_000)
sys.argv = [sys.argv[1]]
try:
    runpy.run_path(sys.argv[0], run_name="__main__")
finally:
    torch.cuda.synchronize()
    torch.cuda.memory._dump_snapshot(OUT)
"""


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", action="append", default=[], metavar="NAME")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep the real snapshots there")
    parser.add_argument("--budget", type=float, default=720.0, metavar="SECONDS")
    options = parser.parse_args()
    torch = _torch()
    if torch is None:
        print(
            "No GPU that PyTorch can use: this script compares real runs with traced ones.", file=sys.stderr
        )
        return 2
    card = torch.cuda.get_device_name(0)
    version = ".".join(torch.__version__.split("+")[0].split(".")[:2])
    print(f"{card}, torch {torch.__version__}, CUDA {torch.version.cuda}")
    print(
        f"{'script':<26}{'allocated real':>16}{'traced':>16}{'off':>9}  {'reserved':<9}{'events':>9}  same until"
    )
    began, bad = time.monotonic(), 0
    with tempfile.TemporaryDirectory() as folder:
        keep = options.keep or Path(folder)
        keep.mkdir(parents=True, exist_ok=True)
        for script in SCRIPTS:
            if options.only and script.stem not in options.only:
                continue
            missing = _missing(script)
            if missing:
                print(f"{script.stem:<26}left out: {missing} is not installed")
                continue
            if time.monotonic() - began > options.budget:
                print(f"{script.stem:<26}left out: the budget of {options.budget:.0f} s is used up")
                continue
            bad += _one(script, keep / f"{script.stem}.pickle", card, version)
    return int(bad > 0)


def _torch() -> Any:
    try:
        import torch
    except ImportError:
        return None
    return torch if torch.cuda.is_available() else None


def _missing(script: Path) -> str:
    import importlib.util

    first = script.read_text(encoding="utf-8").partition("\n")[0]
    absent = [need for need in NEEDS if need in first and importlib.util.find_spec(need) is None]
    return ", ".join(absent)


def _one(script: Path, snapshot: Path, card: str, version: str) -> int:
    """Prints one row; 1 when the trace is too far off or one of both could not run."""
    code = RECORD.replace("OUT", repr(str(snapshot)))
    real = subprocess.run(
        [sys.executable, "-c", code, str(script)], capture_output=True, text=True, check=False
    )
    if real.returncode:
        print(f"{script.stem:<26}failed for real: {real.stderr.strip().splitlines()[-1:]}")
        return 1
    command = [sys.executable, "-m", "tests.conformance", "trace", "--json", "--snapshot", str(snapshot)]
    command += ["--gpu", card, "--torch", version, "--", str(script)]
    traced = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
    )
    if traced.returncode:
        print(f"{script.stem:<26}failed traced: {traced.stderr.strip().splitlines()[-1:]}")
        return 1
    answer = json.loads(traced.stdout)
    allocated, reserved = answer["peak_allocated_bytes"], answer["peak_reserved_bytes"]
    parted = answer["first_divergence"]
    print(
        f"{script.stem:<26}{allocated['real']:>16,}{allocated['traced']:>16,}{allocated['difference']:>+9.3%}  "
        f"{'equal' if reserved['equal'] else 'other':<9}{answer['events_real']:>9,}  "
        f"{'the end' if parted is None else parted['index']}",
        flush=True,
    )
    return int(not (allocated["within"] and reserved["equal"]))


if __name__ == "__main__":
    sys.exit(main())
