"""`python -m tests.tracing.worker`: programs as JSON lines on stdin, what they did as JSON lines on stdout.

Each runs in a fork of this process.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any


def main() -> None:
    """Until stdin ends."""
    _import_much()
    with tempfile.TemporaryDirectory() as folder:
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


def _import_much() -> None:
    """So that no fork has to."""
    import importlib

    for name in (
        "torch",
        "torch._dynamo",
        "torch.distributed.tensor",
        "torch.testing._internal.distributed.fake_pg",
    ):
        importlib.import_module(name)
    for name in (
        "session",
        "result",
        "recorder.mode",
        "kernels.registry",
        "device.answers",
        "suppress",
        "libraries",
    ):
        importlib.import_module(f"oomph.tracing.{name}")


def _answer(request: dict[str, Any], out: Path) -> None:
    try:
        answer = _run(request)
    except BaseException:  # noqa: BLE001 - the test shows it
        answer = {"error": traceback.format_exc()}
    out.write_text(json.dumps(answer))


def _run(request: dict[str, Any]) -> dict[str, Any]:
    import torch

    from oomph.hardware.names import gpu
    from oomph.memory.allocator.settings import AllocatorSettings
    from oomph.tracing.kernels.registry import all_rules
    from oomph.tracing.session import Session
    from oomph.tracing.settings import TraceSettings

    card = gpu(request["gpu"])
    settings = TraceSettings(
        gpu=card,
        torch=tuple(request["torch"]),
        capacity_bytes=request["capacity_bytes"],
        device_bytes=card.total_bytes,
        allocator=AllocatorSettings.parse(request["allocator"]),
        steps=request["steps"],
    )
    session = Session(settings, all_rules().without(*request["without"]))
    printed = io.StringIO()
    marks: list[int] = []
    names = {
        "torch": torch,
        "mark": lambda: marks.append(len(session.recorder.memory(0))),
        "__name__": "__main__",
    }
    with contextlib.redirect_stdout(printed), session:
        exec(compile(request["program"], "program.py", "exec"), names)  # noqa: S102 - a test's own program
    return {"printed": printed.getvalue(), **_seen(session, marks)}


def _seen(session: Any, marks: list[int]) -> dict[str, Any]:
    from oomph.memory.categories import CATEGORIES
    from oomph.memory.timeline import Kind
    from oomph.phases import Phase

    trace, recorder = session.trace(), session.recorder
    memory = recorder.memory(0)
    device = next((one for one in trace.devices if one.index == 0), None)
    answer: dict[str, Any] = {
        "assumptions": trace.assumptions,
        "notes": trace.notes,
        "suppressed": trace.suppressed,
        "unruled": list(trace.unruled),
        "uncertain": trace.uncertain_bytes,
        "steps_done": trace.steps_done,
        "peak_allocated": memory.allocator.peak_allocated_bytes,
        "peak_reserved": memory.allocator.peak_reserved_bytes,
        "allocated_at_the_end": memory.allocator.requested_bytes,
        "events": [],
        "after_mark": 0,
        "peak_by_phase": {},
        "blocks": [],
    }
    if device is None:
        return answer
    kinds, sizes = device.timeline.kind.tolist(), device.timeline.size_bytes.tolist()
    allocated = 0
    for place, (kind, size, phase) in enumerate(zip(kinds, sizes, device.exact.phase, strict=True)):
        if marks and place == marks[0]:
            answer["after_mark"] = len(answer["events"])
        if kind == Kind.ALLOC:
            answer["events"].append(("alloc", size))
            allocated += -(-size // 512) * 512
        elif kind == Kind.FREE_REQUESTED:
            answer["events"].append(("free", size))
            allocated -= -(-size // 512) * 512
        name = str(tuple(Phase)[phase])
        answer["peak_by_phase"][name] = max(answer["peak_by_phase"].get(name, 0), allocated)
    exact = device.exact
    requested = [size for kind, size in zip(kinds, sizes, strict=True) if kind == Kind.ALLOC]
    answer["blocks"] = [
        {"size": size, "category": str(CATEGORIES[category]), "label": exact.labels[label]}
        for size, category, label in zip(requested, exact.category, exact.label, strict=True)
    ]
    return answer


if __name__ == "__main__":
    main()
