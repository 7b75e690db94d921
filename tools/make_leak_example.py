"""Writes examples/leak: the log and the memory snapshot of a job that dies because it keeps every step's logits.

    python -m tools.make_leak_example

No GPU was there: the job runs on the simulated allocator, which tests/snapshots records as PyTorch would.
"""

from __future__ import annotations

import gzip
from pathlib import Path

from tests.snapshots.job import Spec
from tests.snapshots.scenarios.growth import LOGITS, Run
from tests.snapshots.truth import Truth

FOLDER = Path(__file__).resolve().parent.parent / "examples" / "leak"
GIB = 1 << 30
#: An A100 of 40 GB as PyTorch sees it, less what the run's own context takes.
ROOM = int(39.38 * GIB) - GIB // 2


def gib(size: int) -> str:
    """As PyTorch prints sizes."""
    return f"{size / GIB:.2f} GiB" if size >= GIB else f"{size / (1 << 20):.2f} MiB"


def main() -> None:
    """Runs the job until it fails, and writes both files."""
    spec = Spec(layers=16, hidden=2048, tokens=8192, vocabulary=50_304, keep_lines=(LOGITS.line,))
    made = Run(spec, 200, Truth()).tight(ROOM)
    failed = made.truth.failed
    assert failed is not None
    assert failed.step is not None
    FOLDER.mkdir(exist_ok=True)
    with (FOLDER / "oom_rank0.pickle.gz").open("wb") as file:
        file.write(gzip.compress(made.pickled("2.13"), 9, mtime=0))
    lines = [f"step {step} | loss {10.82 - 0.11 * step:.2f} | 8192 tokens" for step in range(failed.step)]
    message = (
        f"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {gib(failed.segment_bytes)}. GPU 0 has a total "
        f"capacity of {gib(failed.available_bytes + GIB // 2)} of which {gib(failed.free_bytes)} is free. Including "
        f"non-PyTorch memory, this process has {gib(failed.reserved_bytes + GIB // 2)} memory in use. Of the allocated "
        f"memory {gib(failed.allocated_bytes)} is allocated by PyTorch, and "
        f"{gib(failed.reserved_bytes - failed.allocated_bytes)} is reserved by PyTorch but unallocated. If reserved "
        "but unallocated memory is large try setting PYTORCH_ALLOC_CONF=expandable_segments:True to avoid "
        "fragmentation.  See documentation for Memory Management  "
        "(https://docs.pytorch.org/docs/stable/notes/cuda.html#optimizing-memory-usage-with-pytorch-cuda-alloc-conf)"
    )
    trace = [
        "Traceback (most recent call last):",
        '  File "/home/someone/project/train.py", line 80, in <module>',
        "    main()",
        '  File "/home/someone/project/train.py", line 58, in main',
        "    loss.backward()",
    ]
    (FOLDER / "train.log").write_text("\n".join([*lines, *trace, message]) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
