"""A case's peaks, traced and planned."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from oomph.job.resolve import resolve
from oomph.predict.compose.run import compose, setup_of
from oomph.predict.frameworks import variants
from oomph.predict.peak_sink import PeakSink
from tests.predict.preference.cases import Case

_ROOT = Path(__file__).parents[3]
NEAR = 0.01


class Tracer:
    """A process that has imported torch once, and forks for each case."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.predict.preference.worker"],
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
        found: dict[str, int] = answer["peaks"]
        return found

    def close(self) -> None:
        """Ends the process."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._process.wait(timeout=60)


def planned(case: Case) -> dict[str, int]:
    """The same of the plan, as the first of the codes that the job may mean."""
    job, _ = resolve(case.job())
    sink = PeakSink()
    compose(setup_of(job, variants(job)[0]), sink)
    return {str(phase): peak.bytes for phase, peak in sink.peaks().items()}
