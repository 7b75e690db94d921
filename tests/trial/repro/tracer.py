"""The peaks of a script's trace, by phase."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).parents[3]


class Tracer:
    """A process that has imported torch once, and forks for each script."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.trial.repro.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=_ROOT,
            env={**os.environ, "PYTHONPATH": f"{_ROOT / 'src'}{os.pathsep}{_ROOT}"},
        )

    def run(self, script: Path, world: int = 1, *arguments: str) -> dict[str, Any]:
        """`peaks` (bytes allocated at the most in each phase) and what was `printed`. Raises RuntimeError."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        asked = {"script": str(script), "world": world, "arguments": arguments}
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        if "error" in answer:
            raise RuntimeError(answer["error"][-6000:])
        return answer

    def close(self) -> None:
        """Ends the process."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._process.wait(timeout=60)
