"""What the benchmarks of `oomph explain` share: deterministic logs, and commands measured side by side."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

#: The fixed strings that somebody would grep a failed job's log for.
PATTERNS = ("out of memory", "Tried to allocate", "Traceback")
GREP = ("grep", "-cF", *(part for pattern in PATTERNS for part in ("-e", pattern)))

MESSAGE = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.50 GiB. GPU {device} has a total capacity of "
    "79.11 GiB of which 1.02 GiB is free. Including non-PyTorch memory, this process has 78.08 GiB memory in use. Of "
    "the allocated memory 74.90 GiB is allocated by PyTorch, and 1.31 GiB is reserved by PyTorch but unallocated. If "
    "reserved but unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid "
    "fragmentation.  See documentation for Memory Management  (https://docs.pytorch.org/docs/stable/notes/cuda.html"
    "#optimizing-memory-usage-with-pytorch-cuda-alloc-conf)"
)
_SITE = "/opt/env/lib/python3.12/site-packages"
_FRAMES = (
    ("/home/me/run.py", 88, "<module>", "main()"),
    ("/home/me/run.py", 61, "main", "loss.backward()"),
    (f"{_SITE}/torch/_tensor.py", 631, "backward", "torch.autograd.backward("),
    (f"{_SITE}/torch/autograd/__init__.py", 381, "backward", "_engine_run_backward("),
    (
        f"{_SITE}/torch/autograd/graph.py",
        869,
        "_engine_run_backward",
        "return Variable._execution_engine.run_backward(  # Calls into the C++ engine to run the backward pass",
    ),
)


def failure(rank: int, prefix: str) -> list[str]:
    """A traceback in backward that ends in the allocator's message."""
    rows = ["Traceback (most recent call last):"]
    for file, line, function, code in _FRAMES:
        rows += [f'  File "{file}", line {line}, in {function}', f"    {code}"]
    rows.append(MESSAGE.format(device=rank % 8))
    return [prefix + row for row in rows]


def progress_line(step: int, rank: int) -> str:
    """A line of metrics, as long as such lines are."""
    clock = f"2026-02-03 {8 + step // 36_000 % 12:02d}:{step // 600 % 60:02d}:{step // 10 % 60:02d}"
    return (
        f"{clock},{(step * 31 + rank) % 1000:03d} [rank{rank}] INFO trainer: step={step} "
        f"loss={2.5 - (step * 7 + rank) % 997 / 1000:.4f} grad_norm={0.2 + (step + rank) % 89 / 300:.4f} lr=2.9e-04 "
        f"tokens_per_s={19_000 + (step * 13 + rank) % 1700} allocated=74.{(step + rank) % 90:02d}GiB reserved=76.20GiB"
    )


def write_console(path: Path, size: int) -> None:
    """A console log of eight ranks of about `size` bytes: metrics, now and then a progress bar, a failure at 93 %,
    then what the other ranks' watchdogs say, and the launcher's table."""
    step = written = 0
    failed = False
    with path.open("wb", buffering=1 << 20) as file:
        written += _put(file, ["launching 8 processes on 1 node"])
        while written < size:
            rows = [progress_line(step + i, rank) for i in range(50) for rank in range(8)]
            step += 50
            if step % 500 == 0:
                rows.append("".join(f"\r{q:3d}%|{'#' * (q // 10):<10}| {q}/100" for q in range(1, 101)))
            written += _put(file, rows)
            if not failed and written >= size * 0.93:
                failed = True
                written += _put(file, failure(6, "[rank6]: "))
                written += _put(file, [_watchdog(i) for i in range(4000)])
        _put(file, _TABLE)


def write_ranks(folder: Path, files: int, size: int, failed: Sequence[int]) -> None:
    """`files` logs of `size` bytes, one for each rank; those in `failed` end in a failure."""
    steps = "\n".join(progress_line(step, 0) for step in range(size // 150))
    for rank in range(files):
        last = "\n".join(failure(rank, f"[rank{rank}]: ") if rank in failed else [_watchdog(rank)]) + "\n"
        body = steps.replace("[rank0]", f"[rank{rank}]")[: size - len(last) - 1]
        (folder / f"rank_{rank}.log").write_text(body + "\n" + last)


_RULE = "=" * 60
_TABLE = [
    "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ",
    _RULE,
    "run.py FAILED",
    "-" * 60,
    "Failures:",
    "  <NO_OTHER_FAILURES>",
    "-" * 60,
    "Root Cause (first observed failure):",
    "[0]:",
    "  time      : 2026-02-03_19:12:01",
    "  host      : node-0",
    "  rank      : 6 (local_rank: 6)",
    "  exitcode  : 1 (pid: 5120)",
    "  error_file: <N/A>",
    "  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html",
    _RULE,
]


def _watchdog(number: int) -> str:
    rank = (0, 1, 2, 3, 4, 5, 7)[number % 7]
    return (
        f"[rank{rank}]:[E203 19:10:{number // 7 % 60:02d}.{number * 7919 % 10**9:09d} ProcessGroupNCCL.cpp:685] "
        f"[Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={number}, OpType=ALLREDUCE, "
        "NumelIn=4194304, NumelOut=4194304, Timeout(ms)=600000) ran for 600012 milliseconds before timing out."
    )


def _put(file: BinaryIO, rows: Sequence[str]) -> int:
    data = ("\n".join(rows) + "\n").encode()
    return file.write(data)


@dataclass(frozen=True)
class Measured:
    """The best wall time of several runs, the highest peak of resident memory, and what the last run returned."""

    seconds: float
    peak_bytes: int
    code: int
    output: bytes


def measure(command: Sequence[str], runs: int) -> Measured:
    """Runs `command` `runs` times. Needs `os.wait4` (not on Windows)."""
    best, peak, code, output = float("inf"), 0, 0, b""
    for _ in range(runs):
        started = time.perf_counter()
        with tempfile.TemporaryFile() as file:
            process = subprocess.Popen(command, stdout=file, stderr=subprocess.DEVNULL)
            _, status, usage = os.wait4(process.pid, 0)
            file.seek(0)
            output = file.read()
        best = min(best, time.perf_counter() - started)
        process.returncode = code = os.waitstatus_to_exitcode(status)
        peak = max(peak, usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024))
    return Measured(best, peak, code, output)


def compare(name: str, paths: Sequence[str], explain: Sequence[str], runs: int) -> float:
    """Prints grep's and oomph's time on the same files in the same run, their ratio, and oomph's memory."""
    if shutil.which("grep") is None:
        raise SystemExit("grep is not installed here: there is nothing to compare with")
    measure([*GREP, *paths], 1)  # brings the files into the page cache for both
    grep = measure([*GREP, *paths], runs)
    oomph = measure([sys.executable, "-m", "oomph", "explain", *explain], runs)
    ratio = oomph.seconds / grep.seconds
    print(f"{name}: oomph {oomph.seconds:.2f} s / grep {grep.seconds:.2f} s = {ratio:.1f}")
    print(f"{name}: peak memory of oomph {oomph.peak_bytes / 2**20:.0f} MiB, exit code {oomph.code}")
    if oomph.code != 1:
        raise SystemExit(f"oomph did not find the failure (exit code {oomph.code})")
    return ratio
