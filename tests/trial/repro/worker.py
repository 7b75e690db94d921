"""`python -m tests.trial.repro.worker`: scripts as JSON lines on stdin, peaks of their traces as JSON lines on stdout.

Libraries are imported once; each script runs as `__main__` in a fork, traced as `oomph trace --steps all` does it.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import runpy
import sys
import tempfile
import traceback
import warnings
from pathlib import Path
from typing import Any

from tests.predict.grid.worker import _import_much, _peaks


def main() -> None:
    """Until stdin ends."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    _import_much()
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "answer.json"
        for line in sys.stdin:
            out.unlink(missing_ok=True)
            child = os.fork()
            if child == 0:
                _answer(json.loads(line), out, folder)
                os._exit(0)
            _, status = os.waitpid(child, 0)
            text = out.read_text() if out.exists() else json.dumps({"error": f"the process died: {status}"})
            sys.stdout.write(text + "\n")
            sys.stdout.flush()


def _answer(asked: dict[str, Any], out: Path, folder: str) -> None:
    os.chdir(folder)  # where scripts make their output folders
    try:
        answer = _run(asked)
    except BaseException:  # noqa: BLE001 - the test shows it
        answer = {"error": traceback.format_exc()}
    out.write_text(json.dumps(answer))


def _run(asked: dict[str, Any]) -> dict[str, Any]:
    from oomph.hardware.names import gpu
    from oomph.memory.allocator.settings import AllocatorSettings
    from oomph.tracing.kernels.registry import all_rules
    from oomph.tracing.session import Session
    from oomph.tracing.settings import TraceSettings

    warnings.simplefilter("ignore")
    card = gpu("a100-sxm4-80gb")
    settings = TraceSettings(
        gpu=card,
        torch=(2, 13),
        device_bytes=card.total_bytes,
        allocator=AllocatorSettings(),
        device_count=asked["world"],
        rank=0,
        world=asked["world"],
        stacks=False,
    )
    session = Session(settings, all_rules())
    printed = io.StringIO()
    sys.argv = [asked["script"], *asked["arguments"]]
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed), session:
        runpy.run_path(asked["script"], run_name="__main__")
    failed = session.trace().failed
    if failed is not None:
        raise RuntimeError(f"{failed}\n{printed.getvalue()[-2000:]}")
    return {"peaks": _peaks(session)["peaks"], "printed": printed.getvalue()}


if __name__ == "__main__":
    main()
