"""A snapshot file to a `Snapshot`."""

from __future__ import annotations

import io
import os
from contextlib import suppress
from typing import BinaryIO

from oomph.errors import InputError
from oomph.evidence.snapshot import scan
from oomph.evidence.snapshot.caps import DEFAULT_CAPS, Caps
from oomph.evidence.snapshot.contents import contents
from oomph.evidence.snapshot.events import read_events
from oomph.evidence.snapshot.formats import Era, detect
from oomph.evidence.snapshot.model import Annotation, DeviceSnapshot, Snapshot
from oomph.evidence.snapshot.segments import Segments
from oomph.evidence.snapshot.traced import read_traced
from oomph.evidence.snapshot.unpickle import unpickle, without_collector
from oomph.evidence.snapshot.values import MalformedError, as_dict, as_list, as_text
from oomph.memory.stacks import Stacks


def read(path: str | os.PathLike[str], caps: Caps = DEFAULT_CAPS) -> Snapshot:
    """The snapshot in a file: what `torch.cuda.memory._dump_snapshot` wrote, plain or packed with gzip or zstd.

    No code in the file is ever run. Raises InputError, in one sentence that names the file, for whatever is not a
    snapshot within the caps.
    """
    name = os.fspath(path)
    with contents(path, caps) as (file, size):
        if not size:
            raise InputError(f"{name} is empty. Dump the snapshot again.")
        return from_file(file, size, name, caps)


def from_bytes(data: bytes, name: str, caps: Caps = DEFAULT_CAPS) -> Snapshot:
    """The snapshot in a pickle that was read already; `name` is how errors call it."""
    return from_file(io.BytesIO(data), len(data), name, caps)


def from_file(
    file: BinaryIO, size: int, name: str, caps: Caps = DEFAULT_CAPS, *, share: bool = scan.COMPILED
) -> Snapshot:
    """The snapshot in a file that can be sought, from its begin on. `share`: whether stacks are shared on the way,
    which is faster where that is compiled, and changes nothing else: what is refused then is read again as it is.
    """
    with without_collector():
        if share:
            with suppress(InputError):
                return _checked(unpickle(file, size, name, caps, share=True), name, caps)
            file.seek(0)
        return _checked(unpickle(file, size, name, caps), name, caps)


def _checked(loaded: object, name: str, caps: Caps) -> Snapshot:
    try:
        return _snapshot(loaded, name, caps)
    except MalformedError as error:
        raise InputError(f"{name} is not a memory snapshot that can be used: {error}.") from None


def _snapshot(loaded: object, name: str, caps: Caps) -> Snapshot:
    if type(loaded) is list:
        # torch.cuda.memory_snapshot() gives the segments alone, and people pickle that too.
        loaded = {"segments": loaded}
    top = as_dict(loaded, "what it holds")
    if "segments" not in top:
        raise MalformedError("it has no segments")
    traces = _traces(top, caps)
    notes: list[str] = []
    stacks = Stacks()
    segments = Segments(caps, stacks)
    segments.read(as_list(top["segments"], "segments"))
    era, annotations = _era(top, traces), _annotations(top)
    text, conf = _settings(top)
    devices = tuple(
        DeviceSnapshot(
            index=index,
            segments=tuple(segments.by_device.get(index, ())),
            timeline=read_events(traces[index] if index < len(traces) else [], stacks, notes),
            block_stacks=segments.block_stacks.get(index, {}),
        )
        for index in range(max(len(traces), 1 + max(segments.by_device, default=-1)))
    )
    timelines = [device.timeline for device in devices]
    traced = read_traced(top["oomph"], timelines, notes) if "oomph" in top else None
    return Snapshot(
        source=name,
        era=era,
        devices=devices,
        conf_text=text,
        conf=conf,
        annotations=annotations,
        notes=tuple(notes),
        traced=traced,
    )


def _traces(top: dict[str, object], caps: Caps) -> list[list[object]]:
    """The lists of events by device, within bounds: a file may name one list, or one event, as often as it likes."""
    traces = [
        as_list(trace, "a device's trace") for trace in as_list(top.get("device_traces", []), "device_traces")
    ]
    if len(traces) > caps.devices:
        raise MalformedError(f"it has traces of {len(traces)} devices")
    used = [trace for trace in traces if trace]
    if len(set(map(id, used))) < len(used):
        raise MalformedError("two devices have one and the same trace")
    events = sum(map(len, used))
    if events > caps.events:
        raise MalformedError(f"it lists {events} events")
    return traces


def _era(top: dict[str, object], traces: list[list[object]]) -> Era:
    """Keys differ between kinds of events (an OOM has other ones), so the first few and the last few are looked at."""
    events = []
    for trace in traces:
        events += [event for event in trace[:8] + trace[-8:] if isinstance(event, dict)]
    return detect(top, events)


def _settings(top: dict[str, object]) -> tuple[str | None, dict[str, object]]:
    raw = as_dict(top.get("allocator_settings", {}), "allocator_settings")
    conf = {key: value for key, value in raw.items() if type(key) is str}
    text = conf.pop("PYTORCH_CUDA_ALLOC_CONF", None)
    if text is not None:
        text = as_text(text, "PYTORCH_CUDA_ALLOC_CONF")
    return text, conf


def _annotations(top: dict[str, object]) -> tuple[Annotation, ...]:
    """Named ranges. One that is not as expected is left out: nothing rests on them."""
    result = []
    for raw in as_list(top.get("external_annotations", []), "external_annotations"):
        if type(raw) is not dict:
            continue
        name, stage = raw.get("name"), raw.get("stage")
        device, time = raw.get("device", 0), raw.get("time_us", -1)
        if type(name) is str and type(stage) is str and type(device) is int and type(time) is int:
            result.append(Annotation(name, stage, device, time))
    return tuple(result)
