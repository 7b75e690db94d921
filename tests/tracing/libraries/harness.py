"""Traces a script of tests/tracing/scripts, or a few lines, in a process where the libraries are imported already."""

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

ROOT = Path(__file__).parents[3]
SCRIPTS = ROOT / "tests" / "tracing" / "scripts"


@dataclass(frozen=True)
class Seen:
    """What was seen on cuda:0. `most` and `last` are requested bytes by category: at their most, and at the end."""

    answer: dict[str, Any]

    @property
    def most(self) -> dict[str, int]:
        return dict(self.answer["most"])

    @property
    def last(self) -> dict[str, int]:
        return dict(self.answer["last"])

    @property
    def said(self) -> str:
        """Assumptions and notes."""
        return "\n".join([*self.answer["assumptions"], *self.answer["notes"]])

    @property
    def printed(self) -> str:
        return str(self.answer["printed"])

    @property
    def failed(self) -> tuple[str, str]:
        """The exception's name and text; empty where there was none."""
        failed = self.answer["failed"]
        return (failed[0], failed[1]) if failed else ("", "")


def script(name: str, *arguments: str, steps: int | None = 2, capacity: int | None = None) -> Seen:
    """Traces a script, which must not fail."""
    seen = _ask(script=str(SCRIPTS / f"{name}.py"), arguments=arguments, steps=steps, capacity=capacity)
    assert not seen.answer["failed"], seen.answer["failed"][2][-4000:]
    return seen


def program(text: str, *, steps: int | None = None, capacity: int | None = None, fails: bool = False) -> Seen:
    """Traces a few lines."""
    seen = _ask(program=textwrap.dedent(text), steps=steps, capacity=capacity)
    if not fails:
        assert not seen.answer["failed"], seen.answer["failed"][2][-4000:]
    return seen


def _ask(**request: Any) -> Seen:
    for library in ("torch", "transformers", "peft", "trl", "datasets", "accelerate", "bitsandbytes"):
        pytest.importorskip(library, reason=f"what is tested is {library}") if library == "torch" else None
        if not _installed(library):
            pytest.skip(f"{library} is not installed")
    answer = _worker().ask({"script": "", "arguments": [], "program": None, **request})
    assert "died" not in answer, "the process died"
    return Seen(answer)


@cache
def _installed(name: str) -> bool:
    import importlib.util

    return importlib.util.find_spec(name) is not None


class _Worker:
    def __init__(self) -> None:
        quiet = {
            "TOKENIZERS_PARALLELISM": "false",
            "OMP_NUM_THREADS": "1",
            "HF_DATASETS_DISABLE_PROGRESS_BARS": "1",
        }
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.tracing.libraries.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=ROOT,
            env={**os.environ, **quiet, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"},
        )
        atexit.register(self.close)

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        answer: dict[str, Any] = json.loads(line) if line else {"died": True}
        return answer

    def close(self) -> None:
        """Ends the process."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait(timeout=20)


@cache
def _worker() -> _Worker:
    return _Worker()
