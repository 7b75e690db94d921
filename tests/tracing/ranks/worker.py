"""`python -m tests.tracing.ranks.worker`: programs as JSON lines on stdin, what one rank of them did on stdout.

torch is imported once; each program runs in a fork, which a trace may change as it likes.
"""

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
    """Until stdin ends."""
    import torch.distributed.fsdp
    import torch.distributed.tensor.parallel
    import torch.testing._internal.distributed.fake_pg  # noqa: F401 - imported once for all forks

    import oomph.tracing.session  # noqa: F401

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
    from oomph.tracing.kernels.rule import RuleSet
    from oomph.tracing.session import Session
    from oomph.tracing.settings import TraceSettings

    warnings.simplefilter("ignore")
    os.environ.update(request["environment"])
    settings = TraceSettings(
        gpu=gpu("a100-sxm4-80gb"),
        torch=(2, 13),
        allocator=AllocatorSettings(),
        device_count=min(8, request["world"]),
        rank=request["rank"],
        world=request["world"],
        stacks=False,
    )
    # Kernels' scratch memory is others' to test: without it, bytes can be counted by hand.
    session = Session(settings, RuleSet([]))
    printed = io.StringIO()
    refused = ""
    with contextlib.redirect_stdout(printed):
        try:
            with session:
                code = compile(request["program"], "program.py", "exec")
                exec(code, {"torch": torch, "__name__": "__main__"})  # noqa: S102 - a test's own program
        except Exception as error:
            if not request["may_fail"]:
                raise
            refused = f"{type(error).__name__}: {error}"
    return {"printed": printed.getvalue(), "failed": refused, **_seen(session.recorder)}


def _seen(recorder: Any) -> dict[str, Any]:
    from oomph.memory.categories import CATEGORIES
    from oomph.phases import Phase

    devices: dict[str, Any] = {}
    for index, memory in recorder.devices.items():
        blocks = [
            {
                "size": block.size,
                "stream": block.stream,
                "phase": str(tuple(Phase)[block.phase]),
                "category": "" if block.category < 0 else str(CATEGORIES[block.category]),
                "label": "" if block.label < 0 else recorder.labels[block.label],
                "operator": "" if block.operator < 0 else recorder.labels[block.operator],
            }
            for block in memory.allocs
        ]
        kinds = [(kind, size) for kind, size in zip(memory.kind, memory.size, strict=True) if kind < 3]
        devices[str(index)] = {
            "blocks": blocks,
            "events": kinds,
            "peak_allocated": memory.allocator.peak_allocated_bytes,
            "peak_requested": memory.allocator.peak_requested_bytes,
        }
    return {
        "devices": devices,
        "assumptions": list(recorder.assumptions),
        "notes": list(recorder.notes),
    }


if __name__ == "__main__":
    main()
