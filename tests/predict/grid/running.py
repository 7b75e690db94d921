"""A case's peaks, traced and planned."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

from oomph.predict.compose.run import compose, setup_of
from oomph.predict.frameworks import variants
from oomph.predict.peak_sink import PeakSink
from tests.predict.grid.cases import Case

_ROOT = Path(__file__).parents[3]
#: What both sides tell apart. Loading is not among them: the loop makes its model on the host, of no file.
PHASES = ("forward", "backward", "optimizer", "eval")


class Tracer:
    """A process that has imported torch once, and forks for each case. `worker`: the module that it runs."""

    def __init__(self, worker: str = "tests.predict.grid.worker") -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", worker],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=_ROOT,
            env={**os.environ, "PYTHONPATH": f"{_ROOT / 'src'}{os.pathsep}{_ROOT}"},
        )

    def peaks(self, case: Case) -> dict[str, int]:
        """Bytes allocated at the most in each phase. Raises RuntimeError with what went wrong."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(case.asked()) + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        if "error" in answer:
            raise RuntimeError(answer["error"][-4000:])
        return by_phase(case, answer["peaks"])

    def close(self) -> None:
        """Ends the process."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._process.wait(timeout=60)


def planned(case: Case) -> dict[str, int]:
    """The same of the plan, as the first of the codes that the job may mean."""
    job, sink = case.job(), PeakSink()
    compose(setup_of(job, _first(job)), sink)
    return by_phase(case, {str(phase.value): peak.bytes for phase, peak in sink.peaks().items()})


@cache
def _first(job: Any) -> Any:
    return variants(job)[0]


def by_phase(case: Case, peaks: dict[str, int]) -> dict[str, int]:
    """Those of `PHASES`. An optimizer that steps in backward has no phase of its own."""
    found = {name: size for name, size in peaks.items() if name in PHASES}
    if case.impl == "in_backward":
        found["backward"] = max(found["backward"], found.pop("optimizer", 0))
    return found
