"""Runs a few lines of a program inside a trace, in a process of its own, and gives what tests ask of it.

Importing torch takes longer than most of these programs. So one process imports it once and forks for each program
(`worker.py`); a trace changes torch for its process, and that process ends with it.
"""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

_ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Seen:
    """What a traced program did on cuda:0. Events are (“alloc” or “free”, requested bytes) in order."""

    answer: dict[str, Any]

    @property
    def events(self) -> list[tuple[str, int]]:
        return [(kind, size) for kind, size in self.answer["events"]]

    @property
    def events_after_mark(self) -> list[tuple[str, int]]:
        return self.events[self.answer["after_mark"] :]

    @property
    def printed(self) -> str:
        return str(self.answer["printed"])

    def __getattr__(self, name: str) -> Any:
        return self.answer[name]


def traced(
    program: str,
    *,
    gpu: str = "a100-sxm4-80gb",
    torch: tuple[int, int] = (2, 13),
    capacity_bytes: int | None = None,
    allocator: str = "",
    steps: int | None = None,
    without: tuple[str, ...] = (),
) -> Seen:
    """Traces `program`, in which `torch` and `mark()` are there, and fails the test when it fails."""
    pytest.importorskip("torch", reason="tracing needs PyTorch")
    request = {
        "program": textwrap.dedent(program),
        "gpu": gpu,
        "torch": torch,
        "capacity_bytes": capacity_bytes,
        "allocator": allocator,
        "steps": steps,
        "without": without,
    }
    answer = _worker().ask(request)
    assert "error" not in answer, answer["error"][-4000:]
    return Seen(answer)


class _Worker:
    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.tracing.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=_ROOT,
            env={**os.environ, "PYTHONPATH": f"{_ROOT / 'src'}{os.pathsep}{_ROOT}"},
        )
        atexit.register(self.close)

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def close(self) -> None:
        """Ends the process."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait(timeout=20)


@cache
def _worker() -> _Worker:
    return _Worker()
