"""A failure that a snapshot recorded, in the terms of evidence from logs.

The snapshot's document has one line per out-of-memory event; its line numbers are the numbers of the events.
"""

from __future__ import annotations

from oomph.diagnose.snapshot.model import DeviceReport, SnapshotReport
from oomph.diagnose.snapshot.places import is_python
from oomph.evidence.model import Document, Fact, Failure, Frame, Kind, Line, Position, Traceback
from oomph.evidence.sources.ranks import Place
from oomph.units import Amount


def document_of(report: SnapshotReport, index: int, place: Place) -> Document:
    """The document that stands for a snapshot, which lies at `place` among its siblings."""
    lines = [
        Line(f"memory snapshot of PyTorch {report.era} or later; settings: {report.settings or 'none'}", 0)
    ]
    for device in report.devices:
        failure = device.failure
        if failure is None:
            continue
        free = "" if failure.free_bytes is None else f", {failure.free_bytes:,} bytes were free on the device"
        lines.append(
            Line(
                (
                    f"event {failure.position:,} of {device.events:,} of device {device.index}: no memory for a "
                    f"request of {failure.request_bytes:,} bytes{free}; {failure.allocated_bytes:,} bytes "
                    f"allocated, {failure.reserved_bytes:,} reserved"
                ),
                failure.position,
            )
        )
    return Document(
        report.source,
        lines,
        index=index,
        size_bytes=report.size_bytes,
        events=sum(device.events for device in report.devices),
        rank=place.rank,
        attempt=place.attempt,
    )


def fact_of(report: SnapshotReport, document: Document) -> Fact | None:
    """The allocator's settings, where the snapshot holds any."""
    if not report.settings:
        return None
    return Fact("alloc_conf", report.settings, Position(document.index, 0), document.quote(0), document.rank)


def failure_of(device: DeviceReport, document: Document) -> Failure:
    """The failed request of a device. Its sizes are exact; a snapshot does not say what the whole device has."""
    failure = device.failure
    assert failure is not None
    line = next(i for i, one in enumerate(document.lines) if i and one.number == failure.position)
    position = Position(document.index, line)
    numbers = {
        "requested_bytes": Amount(failure.segment_bytes),
        "allocated_bytes": Amount(failure.allocated_bytes),
        "reserved_bytes": Amount(failure.reserved_bytes),
    }
    if failure.free_bytes is not None:
        numbers["free_bytes"] = Amount(failure.free_bytes)
    if device.ledger.private_pool_bytes:
        numbers["private_pool_bytes"] = Amount(device.ledger.private_pool_bytes)
    return Failure(
        format="snapshot",
        kind=Kind.DEVICE_OOM,
        vendor="cuda",
        position=position,
        end=position,
        quote=document.quote(line),
        numbers=numbers,
        device=device.index,
        rank=document.rank,
        raised=True,
        detail={"caught": "true"} if failure.caught else {},
    )


def traceback_of(device: DeviceReport, failure: Failure) -> Traceback | None:
    """The Python frames of the request, outermost first; None when none was recorded."""
    assert device.failure is not None
    frames = tuple(
        Frame(one.file, one.line, one.function, position=failure.position)
        for one in reversed(device.failure.frames)
        if is_python(one)
    )
    if not frames:
        return None
    return Traceback(
        frames=frames,
        exception="torch.OutOfMemoryError",
        message=failure.quote.text,
        start=failure.position,
        end=failure.position,
        rank=failure.rank,
    )
