"""Writes a synthetic snapshot: `python -m tests.snapshots SCENARIO OUT [--seed N] [--stacks all|python|none] ...`."""

from __future__ import annotations

import argparse
from pathlib import Path

from tests.snapshots.every import SCENARIOS
from tests.snapshots.frames import STYLES
from tests.snapshots.scenarios import growth
from tests.snapshots.written import ERAS, Made

_RUNS = {f"growth.{name}": run for name, run in {**growth.LEAKS, **growth.NONE}.items()}


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.snapshots",
        description="Writes a synthetic snapshot and says what is known about it.",
        epilog=f"Scenarios: {', '.join(SCENARIOS)}",
    )
    parser.add_argument("scenario", choices=SCENARIOS, metavar="SCENARIO")
    parser.add_argument("out", type=Path, metavar="OUT")
    parser.add_argument("--seed", type=int, default=0, help="another of its kind")
    parser.add_argument("--stacks", choices=STYLES, default="all")
    parser.add_argument("--format", choices=ERAS, default="2.10", help="the PyTorch that writes it")
    parser.add_argument("--last", type=int, help="keep only so many events, as a ring does")
    parser.add_argument("--steps", type=int, help="training steps (growth.* only; about 170 events each)")
    asked = parser.parse_args()
    if asked.steps is not None and asked.scenario not in _RUNS:
        parser.error("--steps is for growth.* only")
    made = _made(asked.scenario, asked.seed, asked.stacks, asked.steps)
    asked.out.write_bytes(made.pickled(asked.format, asked.last))
    print(f"{asked.out}: {len(made.device.events)} events")
    print(made.truth)


def _made(name: str, seed: int, style: str, steps: int | None) -> Made:
    if steps is None:
        return SCENARIOS[name](seed, style)
    run = _RUNS[name](seed, style)
    run.steps = steps
    return run.roomy()


if __name__ == "__main__":
    main()
