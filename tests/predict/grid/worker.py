"""`python -m tests.predict.grid.worker`: cases as JSON lines on stdin, peaks of their traces as JSON lines on stdout.

Libraries are imported once; each case is traced in a fork.
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
    import gc
    import importlib
    import pkgutil

    warnings.simplefilter("ignore")
    names = ("torch", "torch.distributed.fsdp", "torch.testing._internal.distributed.fake_pg", "peft")
    for name in (*names, "transformers.models.auto.modeling_auto", "transformers.masking_utils"):
        importlib.import_module(name)
    tracing = importlib.import_module("oomph.tracing")
    for module in pkgutil.walk_packages(tracing.__path__, "oomph.tracing."):
        with contextlib.suppress(ImportError):
            importlib.import_module(module.name)
    gc.freeze()


def _answer(case: dict[str, Any], out: Path) -> None:
    try:
        answer = _run(case)
    except BaseException:  # noqa: BLE001 - the test shows it
        answer = {"error": traceback.format_exc()}
    out.write_text(json.dumps(answer))


def _run(case: dict[str, Any]) -> dict[str, Any]:
    from oomph.hardware.names import gpu
    from oomph.memory.allocator.settings import AllocatorSettings
    from oomph.tracing.kernels.registry import all_rules
    from oomph.tracing.session import Session
    from oomph.tracing.settings import TraceSettings
    from tests.predict.grid.loop import train

    warnings.simplefilter("ignore")
    card = gpu("a100-sxm4-80gb")
    settings = TraceSettings(
        gpu=card,
        torch=(2, 13),
        device_bytes=card.total_bytes,
        allocator=AllocatorSettings(),
        device_count=case["ranks"],
        rank=0,
        world=case["ranks"],
        stacks=False,
    )
    session = Session(settings, all_rules())
    with contextlib.redirect_stdout(io.StringIO()), session:
        train(case)
    return _peaks(session)


def _peaks(session: Any) -> dict[str, Any]:
    from oomph.memory.timeline import Kind
    from oomph.phases import Phase

    trace = session.trace()
    device = next(one for one in trace.devices if one.index == 0)
    level, peaks, events = 0, {}, []
    kinds, sizes = device.timeline.kind.tolist(), device.timeline.size_bytes.tolist()
    for kind, size, phase in zip(kinds, sizes, device.exact.phase, strict=True):
        booked = -(-size // 512) * 512
        before = level
        if kind == Kind.ALLOC:
            level += booked
        elif kind == Kind.FREE_REQUESTED:
            level -= booked
        name = str(tuple(Phase)[phase])
        peaks[name] = max(peaks.get(name, 0), before, level)
        if kind in (Kind.ALLOC, Kind.FREE_REQUESTED):
            events.append((name, booked if kind == Kind.ALLOC else -booked, level))
    return {"peaks": peaks, "events": events if os.environ.get("OOMPH_GRID_EVENTS") else []}


if __name__ == "__main__":
    main()
