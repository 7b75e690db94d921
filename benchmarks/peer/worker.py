"""Asks one program about the rows of a file: `python -m benchmarks.peer.worker ADAPTER POINTS OUT`.

Runs in the programs' own environment. OUT gets JSON: the version, the seconds, and for each row the bytes and what was
told by its nearest word, or the reason why there is no answer.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import json
import logging
import sys
import time
import warnings
from pathlib import Path
from typing import Any

from benchmarks.peer.row import CannotError, Row


def main(adapter: str, points: Path, out: Path) -> None:
    """Writes the answers of `adapter` (the name of a module beside this one) to `out`."""
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    out.write_text(json.dumps(answers(importlib.import_module(f"benchmarks.peer.{adapter}"), points)))


def answers(asked: Any, points: Path) -> dict[str, Any]:
    """What the program behind the adapter `asked` says about every row of a file."""
    began = time.perf_counter()
    lines = [line for line in points.read_text(encoding="utf-8").splitlines() if line.strip()]
    said = [_ask(asked, line, points.parent / "configs") for line in lines]
    return {
        "name": asked.NAME,
        "version": importlib.metadata.version(asked.PACKAGE),
        "seconds": time.perf_counter() - began,
        "answers": said,
    }


def _ask(asked: Any, line: str, configs: Path) -> dict[str, Any]:
    said: dict[str, Any] = {"predicted": None, "stand_ins": [], "reason": None}
    try:
        # What programs print is not ours to show.
        with contextlib.redirect_stdout(sys.stderr):
            row = Row(json.loads(line), configs)
            said["id"] = row.id
            reply = asked.answer(row)
        said["predicted"], said["stand_ins"] = reply.predicted, list(reply.stand_ins)
    except CannotError as reason:
        said["reason"] = str(reason)
    except Exception as error:  # noqa: BLE001 - a program that fails at a row has no answer for it
        said["reason"] = f"failed: {type(error).__name__}: {str(error)[:200]}"
    return said


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
