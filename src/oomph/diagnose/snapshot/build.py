"""A snapshot to its report: one device after the other, and which of them to look at."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from oomph.diagnose.snapshot.alive import born_in, holders_of, phases_of, pools_of, shares_of
from oomph.diagnose.snapshot.analysis import Analysis
from oomph.diagnose.snapshot.failure import failure_at
from oomph.diagnose.snapshot.growth import growth_of
from oomph.diagnose.snapshot.model import DeviceReport, Failure, SnapshotReport, WhatIf
from oomph.diagnose.snapshot.moments import fatal_oom
from oomph.diagnose.snapshot.retries import retries_of
from oomph.diagnose.snapshot.scene import bytes_in_use
from oomph.evidence.snapshot import Snapshot
from oomph.memory.ledger import SIMULATED, Ledger
from oomph.memory.timeline import DEFAULT_POOL, Kind
from oomph.phases import Phase
from oomph.units import Amount, format_bytes


def analyse(snapshot: Snapshot, at: str | None = None, device: int | None = None) -> tuple[Analysis, ...]:
    """One Analysis for each device that was used. `at` applies to all of them or, with `device`, to that one."""
    used = [one.index for one in snapshot.devices if len(one.timeline) or one.segments]
    wanted = [index for index in used if device is None or index == device] or used
    return tuple(Analysis(snapshot, index, at if index in wanted else None) for index in used)


def report_of(
    snapshot: Snapshot,
    *,
    analyses: Sequence[Analysis] | None = None,
    size_bytes: int = 0,
    at: str | None = None,
    device: int | None = None,
    capacity_bytes: int | None = None,
    what_if: Sequence[str] = (),
) -> SnapshotReport:
    """Everything that a snapshot says. `at` is a moment (`moments.choose`), `device` the one to show, `capacity_bytes`
    what PyTorch could have in all, `what_if` the settings to try ("all" for the usual ones).

    Raises UsageError for a moment, a device or a setting that there is not.
    """
    from oomph.errors import UsageError

    everything = analyse(snapshot, at, device) if analyses is None else tuple(analyses)
    if device is not None and all(one.index != device for one in everything):
        there = ", ".join(str(one.index) for one in everything) or "none"
        raise UsageError(f"--device {device}: the snapshot has memory of these devices: {there}")
    reports = []
    shown = _shown(everything, device)
    for number, one in enumerate(everything):
        asked = tuple(what_if) if number == shown else ()
        reports.append(_device(one, capacity_bytes, asked))
    return SnapshotReport(
        source=snapshot.source,
        era=snapshot.era.name,
        size_bytes=size_bytes,
        settings=snapshot.conf_text or "",
        devices=tuple(reports),
        shown=shown,
        notes=(*snapshot.notes, *_traced(snapshot)),
    )


def _traced(snapshot: Snapshot) -> Iterator[str]:
    """That no GPU wrote this file."""
    traced = snapshot.traced
    if traced is not None:
        yield (
            f"oomph traced this run, without a GPU: it speaks for PyTorch {traced.torch} on a GPU like the "
            f"{traced.gpu} (docs/trace.md)."
        )


def _shown(analyses: Sequence[Analysis], device: int | None) -> int:
    """The place of the device to look at: the one asked for, else one whose request failed, else the fullest."""

    def rank(number: int) -> tuple[bool, bool, int]:
        one = analyses[number]
        held = one.device.reserved_bytes
        if one.snapshot.traced is not None:
            # A trace ends where the script does, which may give its memory back.
            held = max(held, _peak(one.reserved_bytes))
        return (one.index == device, fatal_oom(one.timeline) is not None, held)

    return max(range(len(analyses)), key=rank, default=0)


def _device(analysis: Analysis, capacity_bytes: int | None, asked: Sequence[str]) -> DeviceReport:
    timeline, traced = analysis.timeline, analysis.snapshot.traced
    if capacity_bytes is None and traced is not None:
        capacity_bytes = traced.capacity_bytes
    fatal = fatal_oom(timeline)
    failure = failure_at(analysis, fatal) if fatal is not None else None
    if failure is not None and traced is not None:
        # A trace knows whether anything caught it.
        failure = replace(failure, caught=traced.failed is None or not traced.failed.out_of_memory)
    retries = tuple(retries_of(analysis)) if len(timeline) else ()
    available = capacity_bytes
    if available is None and failure is not None:
        available = failure.available_bytes
    reserved = sum(segment.size for segment in analysis.layout)
    return DeviceReport(
        index=analysis.index,
        events=len(timeline),
        moment=analysis.moment,
        ledger=_ledger(analysis, failure),
        shares=shares_of(analysis),
        holders=holders_of(analysis),
        pools=pools_of(analysis.layout),
        phases=phases_of(analysis),
        born_in=born_in(analysis),
        steps=analysis.steps if len(timeline) else None,
        peak_allocated_bytes=analysis.peak_allocated_bytes,
        peak_reserved_bytes=max(analysis.start.reserved_bytes, _peak(analysis.reserved_bytes), reserved),
        failure=failure,
        failures=len(timeline.positions(Kind.OOM)),
        retries=retries,
        growth=growth_of(analysis, available) if len(timeline) else None,
        what_if=_what_if(analysis, capacity_bytes, asked) if asked and len(timeline) else None,
        notes=tuple(_notes(analysis)),
    )


def _peak(curve: object) -> int:
    return int(curve.max(initial=0))  # type: ignore[attr-defined]


def _ledger(analysis: Analysis, failure: Failure | None) -> Ledger:
    layout, position = analysis.layout, analysis.moment.position
    allocated, _ = bytes_in_use(layout)
    known = {
        "reserved_bytes": sum(segment.size for segment in layout),
        "allocated_bytes": allocated,
    }
    private = bytes_in_use([segment for segment in layout if segment.pool != DEFAULT_POOL])[0]
    if private:
        known["private_pool_bytes"] = private
    if failure is not None and failure.position == position:
        known["request_bytes"] = failure.request_bytes
        known["segment_bytes"] = failure.segment_bytes
        if failure.free_bytes is not None:
            known["free_bytes"] = failure.free_bytes
    traced = analysis.snapshot.traced
    if traced is not None and traced.capacity_bytes is not None:
        known["capacity_bytes"] = traced.capacity_bytes
        if traced.capacity_bytes >= known["reserved_bytes"]:
            known.setdefault("free_bytes", traced.capacity_bytes - known["reserved_bytes"])
    ledger = Ledger.build({name: Amount(value, 0) for name, value in known.items()})
    if traced is None or ledger.problems:
        return ledger
    # Nothing of a trace was printed, or recorded on a device.
    origins = {name: SIMULATED if name in known else origin for name, origin in ledger.origins.items()}
    return replace(ledger, origins=origins)


def _what_if(analysis: Analysis, capacity_bytes: int | None, asked: Sequence[str]) -> WhatIf:
    from oomph.diagnose.snapshot.whatif import what_if

    return what_if(
        analysis.device,
        analysis.settings,
        asked=asked,
        capacity_bytes=capacity_bytes,
        boundaries=_phase_ends(analysis),
        start=analysis.start,
    )


def _phase_ends(analysis: Analysis) -> list[int]:
    """The positions after which another phase, or another step, begins."""
    phases = analysis.event_phase
    told = np.flatnonzero(phases != tuple(Phase).index(Phase.UNKNOWN))
    changes = told[1:][phases[told[1:]] != phases[told[:-1]]] - 1
    steps = [first - 1 for first in analysis.steps.first_positions if first]
    return sorted({*changes.tolist(), *steps})


def _notes(analysis: Analysis) -> Iterator[str]:
    timeline, start = analysis.timeline, analysis.start
    if not len(timeline):
        yield (
            "The snapshot has no events of this device: it shows its end only. Start recording with "
            "torch.cuda.memory._record_memory_history() to have more."
        )
        return
    if timeline.frame_lists is None and not len(timeline.stacks):
        yield "No stacks were recorded, so nothing says which code holds what."
    if start.reserved_bytes:
        yield (
            f"{format_bytes(start.reserved_bytes)} were reserved before the first event: recording began late, "
            "or its ring of events was full and the oldest are gone."
        )
    if start.lost:
        yield f"{start.lost} blocks of the trace lie in no segment: events are missing, and sums may be a little off."
    if _peak(-analysis.reserved_bytes) > 0:
        yield "The trace gives back more memory than there was: events are missing, and sums may be far off."
    waiting = bytes_in_use(analysis.layout)[1]
    if waiting:
        yield f"{format_bytes(waiting)} had been freed but may still be used by other streams (record_stream)."
