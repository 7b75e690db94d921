"""`python -m tests.tracing.libraries.worker`: scripts to trace as JSON lines on stdin, what was seen on stdout.

The libraries are imported once, inside a trace, as a script's first import of them would be. Each script then runs in
a fork of this process, in a trace of its own, which finds them imported.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
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

LIBRARIES = (
    "torch",
    "transformers",
    "transformers.trainer",
    "transformers.models.llama.modeling_llama",
    "accelerate",
    "datasets",
    "peft",
    "trl",
    "bitsandbytes",
    "lightning.pytorch",
)


def main() -> None:
    """Until stdin ends."""
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        with _session(None):
            for name in LIBRARIES:
                if importlib.util.find_spec(name.partition(".")[0]) is not None:
                    importlib.import_module(name)
            from transformers import Trainer  # noqa: F401 - transformers imports what is asked of it
            from trl import SFTTrainer  # noqa: F401
        out = Path(folder) / "answer.json"
        for line in sys.stdin:
            out.unlink(missing_ok=True)
            child = os.fork()
            if child == 0:
                out.write_text(json.dumps(_answer(json.loads(line))))
                os._exit(0)
            os.waitpid(child, 0)
            sys.stdout.write((out.read_text() if out.exists() else json.dumps({"died": True})) + "\n")
            sys.stdout.flush()


def _session(steps: int | None, capacity: int | None = None) -> Any:
    from oomph.hardware.names import gpu
    from oomph.tracing.session import Session
    from oomph.tracing.settings import TraceSettings

    card = gpu("a100-sxm4-80gb")
    return Session(
        TraceSettings(
            gpu=card,
            torch=(2, 13),
            capacity_bytes=capacity,
            device_bytes=card.total_bytes,
            steps=steps,
            stacks=False,
        )
    )


def _answer(request: dict[str, Any]) -> dict[str, Any]:
    session = _session(request["steps"], request["capacity"])
    printed = io.StringIO()
    failed = None
    kept: dict[str, Any] = {}
    sys.argv = [request["script"], *request["arguments"]]
    try:
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(io.StringIO()), session:
            if request["program"] is None:
                kept = runpy.run_path(request["script"], run_name="__main__")
            else:
                kept["__name__"] = "__main__"
                exec(compile(request["program"], "program.py", "exec"), kept)  # noqa: S102 - a test's own program
    except BaseException as error:  # noqa: BLE001 - the test looks at it
        failed = [type(error).__name__, str(error), traceback.format_exc()]
    return {"printed": printed.getvalue(), "failed": failed, **_seen(session)}


def _seen(session: Any) -> dict[str, Any]:
    from oomph.memory.categories import CATEGORIES
    from oomph.memory.timeline import Kind

    trace, recorder = session.trace(), session.recorder
    answer: dict[str, Any] = {
        "steps": trace.steps_done,
        "assumptions": list(trace.assumptions),
        "notes": list(trace.notes),
        "unruled": list(trace.unruled),
        "phases": [],
        "most": {},
        "last": {},
    }
    device = next((one for one in trace.devices if one.index == 0), None)
    if device is None:
        return answer
    answer["peak"] = recorder.memory(0).allocator.peak_allocated_bytes
    live: dict[int, tuple[str, int]] = {}
    now: dict[str, int] = {}
    number = 0
    columns = (
        device.timeline.kind.tolist(),
        device.timeline.address.tolist(),
        device.timeline.size_bytes.tolist(),
    )
    for kind, address, size in zip(*columns, strict=True):
        if kind == Kind.ALLOC:
            category = str(CATEGORIES[device.exact.category[number]].value)
            number += 1
            live[address] = category, size
            now[category] = now.get(category, 0) + size
            answer["most"][category] = max(answer["most"].get(category, 0), now[category])
        elif kind == Kind.FREE_REQUESTED and address in live:
            category, size = live.pop(address)
            now[category] -= size
    answer["last"] = now
    from oomph.phases import Phase

    answer["phases"] = sorted({tuple(Phase)[one].value for one in device.exact.phase})
    return answer


if __name__ == "__main__":
    main()
