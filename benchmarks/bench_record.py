"""What recording costs a training.

    python benchmarks/bench_record.py [--steps 40]

Printed are, with what is promised:
- microseconds per phase boundary (50), on a device whose counters are a copy of a table, as CUDA's are: for steps that
  are all written, and with the default settings after the first fifty;
- the same on the CPU device, which counts every tensor's storage (no promise: it stands in for a GPU in tests);
- what a step of a real loop takes more, hooks on the model, autograd and the optimizer included: processor time of
  the training thread for a model so small that the difference is not lost in noise, over a step of 100 ms (1.01);
- a step of about 100 ms recorded, over the same alone, in turns of four, the fastest tenth of each (no promise: other
  processes on this machine move it by more than recording does).

Whatever PyTorch's own memory history costs on a GPU is not in it: benchmarks/gpu/bench_record.py has that.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

import oomph
from oomph.phases import Phase
from oomph.probe.model import Counters

MOST_MICROSECONDS, MOST_RATIO = 50.0, 1.01
_TURN = 4
BOUNDARIES = 4  # of a step: forward, backward, optimizer, and what lies between steps


class TableDevice:
    """A device as cheap as CUDA's: its counters are copied from a table."""

    kind, index, name = "cuda", 0, "a table"
    limits = ()

    def __init__(self) -> None:
        self.table = {f"number_{position}": position for position in range(120)}

    def begin(self) -> None:
        self.table["peak"] = 0

    def read(self) -> Counters:
        found = dict(self.table)
        return Counters(
            allocated_bytes=found["number_1"],
            reserved_bytes=found["number_2"],
            active_bytes=found["number_3"],
            requested_bytes=found["number_4"],
            inactive_split_bytes=found["number_5"],
            peak_allocated_bytes=found["number_6"],
            peak_reserved_bytes=found["number_7"],
            retries=0,
            ooms=0,
        )

    whole = read

    def record_history(self, max_entries: int) -> str:  # noqa: ARG002
        return ""

    def on_out_of_memory(self, observer: object) -> None:
        """Never."""

    def close(self) -> None:
        """Nothing."""


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=200)
    options = parser.parse_args()
    torch.set_num_threads(1)
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        for words, every, promised in (
            ("all steps written", 0.0, True),
            ("default settings", 10.0, True),
        ):
            took = boundary(Path(folder) / words.replace(" ", "-"), every, TableDevice())
            print(f"boundary, {words}: {took:.1f} us (at most {MOST_MICROSECONDS:.0f})")
            failed |= promised and took > MOST_MICROSECONDS
        took = boundary(Path(folder) / "cpu", 10.0, None)
        print(f"boundary, CPU device: {took:.1f} us (no promise)")
        more = difference(Path(folder) / "small")
        ratio = 1 + more / 0.1
        print(f"step: {more * 1e6:.0f} us more; a step of 100 ms: {ratio:.4f} (at most {MOST_RATIO})")
        failed |= ratio > MOST_RATIO
        alone, recorded = steps(Path(folder) / "steps", options.steps)
        print(f"step: recorded {recorded * 1e3:.2f} ms / alone {alone * 1e3:.2f} ms = {recorded / alone:.4f}")
    return int(failed)


def boundary(folder: Path, every: float, device: Any) -> float:
    """Microseconds of one boundary: the median over rounds of 100 steps that do nothing else."""
    rounds = []
    with oomph.record(run_dir=folder, every=every, device=device, warn=False) as run:
        run.phases.tells_forward = False
        for _ in range(20):
            began = time.thread_time()
            for _ in range(100):
                for phase in (Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER):
                    run.leave(run.enter(phase))
                run.step_done()
            rounds.append((time.thread_time() - began) / 100 / BOUNDARIES * 1e6)
    return statistics.median(rounds)


def difference(folder: Path) -> float:
    """Seconds that a recorded step takes more than one alone, of a model that does next to nothing."""
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU(), torch.nn.Linear(8, 8))
    optimizer = torch.optim.AdamW(model.parameters())
    batch = torch.randn(4, 8)
    medians = []
    for records in (False, True):
        run = None
        if records:
            run = oomph.record(model=model, optimizer=optimizer, run_dir=folder, device=TableDevice())
        taken = []
        for _ in range(2_000):
            began = time.thread_time()
            _step(model, optimizer, batch)
            taken.append(time.thread_time() - began)
        medians.append(statistics.median(taken[100:]))
        if run is not None:
            run.end()
    return max(medians[1] - medians[0], 0.0)


def steps(folder: Path, count: int) -> tuple[float, float]:
    """Seconds of a step alone and recorded, in turns."""
    width = 1024
    layers: list[torch.nn.Module] = []
    for _ in range(6):
        layers += [torch.nn.Linear(width, width), torch.nn.GELU()]
    model = torch.nn.Sequential(*layers)
    optimizer = torch.optim.AdamW(model.parameters())
    batch = torch.randn(_rows(model, optimizer, width), width)
    alone, recorded = [], []
    for turn in range(max(count // _TURN, 2)):
        for kept, records in ((alone, False), (recorded, True)):
            run = None
            if records:
                run = oomph.record(
                    model=model, optimizer=optimizer, run_dir=folder / str(turn), device=TableDevice()
                )
            for _ in range(_TURN):
                began = time.thread_time()
                _step(model, optimizer, batch)
                kept.append(time.thread_time() - began)
            if run is not None:
                run.end()
    return _fastest(alone), _fastest(recorded)


def _fastest(taken: list[float]) -> float:
    return statistics.mean(sorted(taken)[: max(len(taken) // 10, 3)])


def _rows(model: Any, optimizer: Any, width: int) -> int:
    """So many rows that a step takes about 100 ms."""
    rows = 64
    while rows < 1 << 14:
        batch = torch.randn(rows, width)
        _step(model, optimizer, batch)
        began = time.thread_time()
        _step(model, optimizer, batch)
        if time.thread_time() - began > 0.09:
            break
        rows = rows * 5 // 4
    return rows


def _step(model: Any, optimizer: Any, batch: Any) -> None:
    model(batch).pow(2).mean().backward()
    optimizer.step()
    optimizer.zero_grad()


if __name__ == "__main__":
    sys.exit(main())
