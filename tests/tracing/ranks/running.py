"""Runs a few lines of a program as one rank of several, in a process of its own."""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
import textwrap
from functools import cache
from pathlib import Path
from typing import Any

import pytest

_ROOT = Path(__file__).parents[3]

#: Sizes of the blocks of a device.
Blocks = list[dict[str, Any]]


class Rank:
    """What one traced rank did."""

    def __init__(self, answer: dict[str, Any]) -> None:
        self.printed: str = answer["printed"]
        self.failed: str = answer["failed"]
        self.assumptions: list[str] = answer["assumptions"]
        self.notes: list[str] = answer["notes"]
        self.devices: dict[str, Any] = answer["devices"]

    def blocks(self, device: int = 0, **wanted: Any) -> Blocks:
        """The blocks of a device that have all these properties."""
        found = self.devices[str(device)]["blocks"]
        return [one for one in found if all(one[key] == value for key, value in wanted.items())]

    def sizes(self, device: int = 0, **wanted: Any) -> list[int]:
        return [one["size"] for one in self.blocks(device, **wanted)]


def traced(
    program: str,
    *,
    world: int = 4,
    rank: int = 0,
    environment: dict[str, str] | None = None,
    may_fail: bool = False,
) -> Rank:
    """Traces `program`, in which `torch` is there, as `rank` of `world`. When it fails, so does the test, unless
    it may."""
    pytest.importorskip("torch", reason="tracing needs PyTorch")
    request = {
        "program": textwrap.dedent(program),
        "world": world,
        "rank": rank,
        "environment": environment or {},
        "may_fail": may_fail,
    }
    answer = _worker().ask(request)
    assert "error" not in answer, answer["error"][-4000:]
    return Rank(answer)


class _Worker:
    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.tracing.ranks.worker"],
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
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer

    def close(self) -> None:
        """Ends the process."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait(timeout=20)


@cache
def _worker() -> _Worker:
    return _Worker()
