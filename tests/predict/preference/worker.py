"""`python -m tests.predict.preference.worker`: cases as JSON lines on stdin, peaks of their traces on stdout."""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import tempfile
import traceback
import warnings
from pathlib import Path
from typing import Any


def main() -> None:
    """Until stdin ends; each case is traced in a fork."""
    from tests.predict.grid.worker import _import_much

    warnings.simplefilter("ignore")
    _import_much()
    with contextlib.redirect_stdout(io.StringIO()):
        __import__("datasets")
        __import__("trl.trainer.dpo_trainer")
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        out = Path(folder) / "answer.json"
        for line in sys.stdin:
            out.unlink(missing_ok=True)
            child = os.fork()
            if child == 0:
                _answer(json.loads(line), out)
                os._exit(0)
            _, status = os.waitpid(child, 0)
            text = out.read_text() if out.exists() else json.dumps({"error": f"the process died: {status}"})
            sys.stdout.write(text + "\n")
            sys.stdout.flush()


def _answer(case: dict[str, Any], out: Path) -> None:
    try:
        answer = traced(case)
    except BaseException:  # noqa: BLE001 - the test shows it
        answer = {"error": traceback.format_exc()}
    out.write_text(json.dumps(answer))


def session(stacks: bool = False) -> Any:
    """A simulated A100."""
    from oomph.hardware.names import gpu
    from oomph.memory.allocator.settings import AllocatorSettings
    from oomph.tracing.kernels.registry import all_rules
    from oomph.tracing.session import Session
    from oomph.tracing.settings import TraceSettings

    card = gpu("a100-sxm4-80gb")
    settings = TraceSettings(
        gpu=card,
        torch=(2, 13),
        device_bytes=card.total_bytes,
        allocator=AllocatorSettings(),
        device_count=1,
        rank=0,
        world=1,
        stacks=stacks,
    )
    return Session(settings, all_rules())


def traced(case: dict[str, Any]) -> dict[str, Any]:
    """Peaks by phase."""
    from tests.predict.grid.worker import _peaks
    from tests.predict.preference.scripts import run

    warnings.simplefilter("ignore")
    its = session()
    with contextlib.redirect_stdout(io.StringIO()), its:
        run(case)
    answer: dict[str, Any] = _peaks(its)
    return answer


if __name__ == "__main__":
    main()
