"""A real memory snapshot beside a trace of the script that made it: `python -m tests.conformance trace`.

What a snapshot does not tell is tried: which of the torch versions that write its format, and which GPU. The first
choice that repeats the recording's events to the end is taken, else the one that follows it longest; the answer says
what was chosen, and whether it was given or found.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from oomph.diagnose.snapshot.analysis import Analysis
from oomph.diagnose.snapshot.build import analyse
from oomph.diagnose.trace.diverge import Act, Divergence, diverge
from oomph.errors import OomphError
from oomph.evidence.snapshot import Snapshot, allocator_settings, read
from oomph.hardware.names import gpu
from oomph.memory.allocator.settings import AllocatorSettings
from oomph.memory.replay import exact
from oomph.memory.replay.orders import requests_of, reserved_orders
from oomph.memory.timeline import Kind
from oomph.tracing.child.launch import run
from oomph.tracing.child.request import Ending, Limits, Outcome, Request
from oomph.tracing.settings import TraceSettings, Version
from oomph.tracing.target.parse import parse
from tests.conformance.labels import FolderError

#: The workspace that cuBLAS keeps, in bytes, before Hopper and from Hopper on (docs/kernels.md).
_BEFORE_HOPPER, _HOPPER = 8_519_680, 33_554_432
#: GPUs to try where none is named, most common first; they differ in what kernels of reductions take.
_GPUS = {
    _BEFORE_HOPPER: ("a100-sxm4-80gb", "rtx-4090", "rtx-3090", "l40s", "a10g"),
    _HOPPER: ("h100-sxm", "h200"),
}
#: The first torch version of each format and the last one before the next; the last is tried first.
_VERSIONS: dict[Version, tuple[Version, ...]] = {
    (2, 0): ((2, 0),),
    (2, 1): ((2, 2), (2, 1)),
    (2, 3): ((2, 3),),
    (2, 4): ((2, 5), (2, 4)),
    (2, 6): ((2, 7), (2, 6)),
    (2, 8): ((2, 8),),
    (2, 9): ((2, 9),),
    (2, 10): ((2, 10), (2, 12), (2, 11)),
    (2, 13): ((2, 13),),
    (2, 14): ((2, 14),),
}
_MOST_TRIALS = 6
_MOST_FRAMES = 12


@dataclass(frozen=True)
class Trial:
    """One trace under one choice, and how it compares."""

    gpu: str
    torch: Version
    capacity_bytes: int | None
    outcome: Outcome
    divergence: Divergence
    traced: Analysis
    window: tuple[int, int]

    @property
    def followed(self) -> float:
        """The part of the recording's events that the trace repeats; more than 1 when all is the same."""
        if self.divergence.same:
            return 2.0
        return self.divergence.equal_before / max(self.divergence.events_real, 1)


def judge(
    snapshot: Path,
    command: Sequence[str],
    gpu_name: str | None,
    torch: str | None,
    limits: Limits,
    capacity_bytes: int | None = None,
) -> dict[str, Any]:
    """Traces `command` and lays the snapshot over it; plain data for JSON. `capacity_bytes` is what PyTorch could have,
    where the GPU was full."""
    if not command:
        raise FolderError("Write the command that made the snapshot after --, as in: -- train.py --batch 8")
    try:
        real = read(snapshot)
        shown = max(analyse(real), key=lambda one: len(one.timeline))
        best: Trial | None = None
        for gpu_choice, version in _choices(real, shown, gpu_name, torch):
            trial = _trial(real, shown, command, (gpu_choice, version, capacity_bytes), limits)
            if best is None or trial.followed > best.followed:
                best = trial
            if best.divergence.same:
                break
    except OomphError as error:
        raise FolderError(str(error)) from None
    assert best is not None
    return _answer(snapshot, real, shown, best, given=(gpu_name is not None, torch is not None))


def _choices(
    real: Snapshot, shown: Analysis, gpu_name: str | None, torch: str | None
) -> Iterator[tuple[str, Version]]:
    gpus = (gpu_name,) if gpu_name else _GPUS[_workspace(shown)]
    versions = (_version(torch),) if torch is not None else _VERSIONS.get(real.era.torch, (real.era.torch,))
    pairs = [(gpus[0], version) for version in versions]
    pairs += [(other, versions[0]) for other in gpus[1:]]
    yield from pairs[:_MOST_TRIALS]


def _version(text: str) -> Version:
    first, _, second = text.partition(".")
    if not (first.isdecimal() and second.isdecimal()):
        raise FolderError(f"{text!r} is no version of PyTorch such as 2.7.")
    return int(first), int(second)


def _workspace(shown: Analysis) -> int:
    """The size of the cuBLAS workspace that the snapshot shows; before Hopper where it shows none."""
    sizes = set(shown.timeline.size_bytes[shown.timeline.positions(Kind.ALLOC)].tolist())
    for segment in shown.device.segments:
        sizes.update(block.requested or block.size for block in segment.blocks)
    if _BEFORE_HOPPER in sizes:
        return _BEFORE_HOPPER
    return _HOPPER if _HOPPER in sizes else _BEFORE_HOPPER


def _trial(
    real: Snapshot,
    shown: Analysis,
    command: Sequence[str],
    choice: tuple[str, Version, int | None],
    limits: Limits,
) -> Trial:
    gpu_name, version, capacity_bytes = choice
    card = gpu(gpu_name)
    settings = TraceSettings(
        gpu=card,
        torch=version,
        capacity_bytes=capacity_bytes,
        device_bytes=card.total_bytes,
        allocator=allocator_settings(real),
    )
    target = parse(list(command), folder=Path.cwd())
    with tempfile.TemporaryDirectory(prefix="oomph-conformance-") as folder:
        out = Path(folder) / "trace.pickle"
        request = Request(
            target=target, settings=settings, folder=str(Path.cwd()), out=str(out), limits=limits
        )
        outcome = run(request)
        if not outcome.traced:
            raise FolderError(f"The script could not be traced: {outcome.sentence or outcome.text}")
        trace = read(out)
    devices = analyse(trace)
    if not devices:
        raise FolderError(f"The script allocated nothing on a GPU{_failed(outcome)}.")
    traced = max(devices, key=lambda one: len(one.timeline))
    window = _window(trace, traced)
    if window is None and outcome.ending is Ending.FAILED:
        raise FolderError(f"The script recorded nothing to compare{_failed(outcome)}.")
    divergence = diverge(
        shown.timeline,
        traced.timeline,
        window,
        from_nothing=window is None and not shown.start.reserved_bytes,
    )
    part = (divergence.began_at, divergence.ends_at)
    return Trial(gpu_name, version, capacity_bytes, outcome, divergence, traced, part)


def _failed(outcome: Outcome) -> str:
    """How the script failed, as the end of a sentence; its traceback is on stderr."""
    return f": it ended with {outcome.kind}" if outcome.ending is Ending.FAILED else ""


def _window(trace: Snapshot, traced: Analysis) -> tuple[int, int] | None:
    """What the script itself recorded last on this device."""
    assert trace.traced is not None
    windows = trace.traced.windows.get(traced.index, ())
    return windows[-1] if windows else None


def _exactly_allocated(shown: Analysis, settings: AllocatorSettings) -> int:
    """The real peak of allocated bytes, from replaying the recording with its own addresses: sums of requests miss the
    rests of blocks that could not be split off."""
    device = shown.device
    return exact(device.segments, device.timeline, settings).peak_allocated_bytes


def _answer(
    snapshot: Path, real: Snapshot, shown: Analysis, best: Trial, given: tuple[bool, bool]
) -> dict[str, Any]:
    settings = allocator_settings(real)
    requests = requests_of(best.traced.timeline, best.window)
    orders = reserved_orders(requests, settings, best.capacity_bytes)
    real_allocated, traced_allocated = _exactly_allocated(shown, settings), orders.allocated[0]
    real_reserved = max(shown.start.reserved_bytes, int(shown.reserved_bytes.max(initial=0)))
    values = sorted(set(orders.values))
    different = abs(traced_allocated - real_allocated) / max(real_allocated, 1)
    limit = 0.0005 if real_allocated > 6e9 else 0.005
    equal = [value for value in values if value == real_reserved]
    return {
        "snapshot": str(snapshot),
        "gpu": {"name": best.gpu, "given": given[0]},
        "torch": {"version": "{}.{}".format(*best.torch), "given": given[1], "format": real.era.name},
        "capacity_bytes": best.capacity_bytes,
        "ended": best.outcome.ending.value,
        "peak_allocated_bytes": {
            "real": real_allocated,
            "traced": traced_allocated,
            "traced_orders": list(orders.allocated),
            "difference": round((traced_allocated - real_allocated) / max(real_allocated, 1), 8),
            "within": different <= limit,
            "equal": real_allocated in orders.allocated,
        },
        "peak_reserved_bytes": {
            "real": real_reserved,
            "traced": equal[0] if equal else orders.values[0],
            "traced_orders": list(orders.values),
            "equal": bool(equal),
            "spread": round((values[-1] - values[0]) / max(values[0], 1), 6),
        },
        "events_real": best.divergence.events_real,
        "events_traced": best.divergence.events_traced,
        "events_equal_before_divergence": best.divergence.equal_before,
        "events_only_real": best.divergence.only_real,
        "events_only_traced": best.divergence.only_traced,
        "first_divergence": _divergence(best.divergence),
        "seconds": round(best.outcome.seconds, 2),
        "peak_host_bytes": best.outcome.peak_host_bytes,
    }


def _divergence(found: Divergence) -> dict[str, Any] | None:
    if found.same:
        return None
    return {
        "index": found.equal_before,
        "real": _act(found.real),
        "traced": _act(found.traced),
    }


def _act(act: Act | None) -> dict[str, Any] | None:
    if act is None:
        return None
    frames = act.frames or act.requested_by
    stack = [f"{frame.function} {frame.file}:{frame.line}" for frame in frames[:_MOST_FRAMES]]
    return {"what": act.what, "size_bytes": act.size_bytes, "event": act.position, "stack": stack}


def as_json(answer: dict[str, Any]) -> str:
    """One JSON object."""
    return json.dumps(answer, indent=1)


def as_text(answer: dict[str, Any]) -> str:
    """A few lines for people."""
    allocated, reserved = answer["peak_allocated_bytes"], answer["peak_reserved_bytes"]
    parted = answer["first_divergence"]
    lines = [
        (
            f"{answer['snapshot']}: {answer['gpu']['name']}, torch {answer['torch']['version']}, "
            f"script {answer['ended']}"
        ),
        (
            f"peak allocated: real {allocated['real']:,}, traced {allocated['traced']:,} "
            f"({allocated['difference']:+.4%}"
            f"{', equal in one order of addresses' if allocated['equal'] else ''}"
            f"{'' if allocated['within'] else ', too far'})"
        ),
        f"peak reserved: real {reserved['real']:,}, traced "
        + ", ".join(f"{value:,}" for value in sorted(set(reserved["traced_orders"])))
        + (" (equal)" if reserved["equal"] else " (none is equal)"),
        f"events: real {answer['events_real']:,}, traced {answer['events_traced']:,}",
    ]
    if parted is None:
        lines.append("the same to the end")
    else:
        sides = [
            f"{side}: {one['what']} {one['size_bytes']:,}"
            for side in ("real", "traced")
            if (one := parted[side]) is not None
        ]
        lines.append(f"first difference at event {parted['index']:,}: " + "; ".join(sides))
    return "\n".join(lines)
