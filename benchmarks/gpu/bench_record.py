"""What `oomph.record()` costs on a GPU: needs one, and a CUDA build of PyTorch.

    python benchmarks/gpu/bench_record.py [--seconds 20]

Printed are, with what is promised:
- microseconds per phase boundary (50), the device's counters included;
- a step of about 100 ms recorded without PyTorch's memory history, over the same alone (1.01);
- the same with the default settings, the history included, and requests per step, which it depends on.

Steps are timed whole, with a synchronization after each, in turns, medians. Takes about three times `--seconds`.
Exit code 1 if a promise does not hold.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

MOST_MICROSECONDS, MOST_RATIO = 50.0, 1.01
BOUNDARIES = 4


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=20.0, help="of each kind of step")
    options = parser.parse_args()
    import torch

    if not torch.cuda.is_available():
        print("no CUDA device: nothing is measured")
        return 2
    with tempfile.TemporaryDirectory() as folder:
        took = boundary(Path(folder) / "boundary")
        print(f"boundary: {took:.1f} us (at most {MOST_MICROSECONDS:.0f})")
        bad = took > MOST_MICROSECONDS
        step, requests = job(torch)
        for words, history, promised in (("without history", 0, True), ("default settings", True, False)):
            alone, recorded = compare(torch, step, options.seconds, Path(folder) / words, history)
            ratio = recorded / alone
            bound = f" (at most {MOST_RATIO})" if promised else f", {requests} requests a step"
            print(
                f"step, {words}: recorded {recorded * 1e3:.2f} ms / alone {alone * 1e3:.2f} ms = {ratio:.4f}{bound}"
            )
            bad |= promised and ratio > MOST_RATIO
    return int(bad)


def boundary(folder: Path) -> float:
    """Microseconds of one boundary, for steps that do nothing else and are all written."""
    import oomph
    from oomph.phases import Phase

    rounds = []
    with oomph.record(run_dir=folder, every=0, warn=False, history=0) as run:
        run.phases.tells_forward = False
        for _ in range(20):
            began = time.perf_counter()
            for _ in range(100):
                for phase in (Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER):
                    run.leave(run.enter(phase))
                run.step_done()
            rounds.append((time.perf_counter() - began) / 100 / BOUNDARIES * 1e6)
    return statistics.median(rounds)


class Job:
    """A stack of encoder layers, trained with AdamW in bfloat16."""

    def __init__(self, torch: Any, rows: int) -> None:
        self.torch = torch
        layer = torch.nn.TransformerEncoderLayer(1024, 16, 4096, batch_first=True)
        self.model = torch.nn.TransformerEncoder(layer, 12, enable_nested_tensor=False).cuda()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), fused=True)
        self.batch = torch.randn(rows, 512, 1024, device="cuda")

    def __call__(self) -> None:
        with self.torch.autocast("cuda", self.torch.bfloat16):
            loss = self.model(self.batch).square().mean()
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.torch.cuda.synchronize()


def job(torch: Any) -> tuple[Job, int]:
    """A job whose step takes about 100 ms, and how often a step asks for memory."""
    rows = 1
    while True:
        step = Job(torch, rows)
        for _ in range(3):
            step()
        began = time.perf_counter()
        step()
        if time.perf_counter() - began > 0.09 or rows >= 256:
            break
        rows = rows * 3 // 2 + 1
    before = torch.cuda.memory_stats()["allocation.all.allocated"]
    step()
    return step, torch.cuda.memory_stats()["allocation.all.allocated"] - before


def compare(torch: Any, step: Job, seconds: float, folder: Path, history: int) -> tuple[float, float]:
    """Seconds of a step alone and recorded, in turns of ten."""
    import oomph

    alone: list[float] = []
    recorded: list[float] = []
    until = time.perf_counter() + 2 * seconds
    turn = 0
    while time.perf_counter() < until or turn < 2:
        torch.cuda.memory._record_memory_history(None)  # noqa: SLF001 - PyTorch has no other name for it
        alone += [_timed(step) for _ in range(10)]
        run = oomph.record(
            model=step.model, optimizer=step.optimizer, run_dir=folder / str(turn), history=history
        )
        recorded += [_timed(step) for _ in range(10)]
        run.end()
        turn += 1
    torch.cuda.memory._record_memory_history(None)  # noqa: SLF001
    return statistics.median(alone), statistics.median(recorded)


def _timed(step: Job) -> float:
    began = time.perf_counter()
    step()
    return time.perf_counter() - began


if __name__ == "__main__":
    sys.exit(main())
