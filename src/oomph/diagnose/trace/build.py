"""A traced snapshot to its report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from oomph.diagnose.snapshot.analysis import Analysis
from oomph.diagnose.snapshot.exact import pattern_of
from oomph.diagnose.snapshot.model import DeviceReport, SnapshotReport
from oomph.diagnose.trace.model import DeviceTrace, Ending, Part, StepPeak, TraceReport, Unruled
from oomph.diagnose.trace.predict import (
    orders_for,
    phase_rows,
    played_of,
    prediction_of,
    step_peaks,
)
from oomph.errors import InputError
from oomph.evidence.snapshot import Traced
from oomph.memory.categories import CATEGORIES, Category

#: Labels that are kept of each kind, largest first.
MOST_PARTS = 50


def trace_report(
    snapshot: SnapshotReport,
    traced: Traced | None,
    analyses: Sequence[Analysis],
    command: str = "",
    *,
    chosen: bool = False,
) -> TraceReport:
    """What a traced run needs and whether it fits. `snapshot` is the report of its file, `traced` what the file says
    beside the snapshot, `analyses` what the report was made from, `command` what was traced. The device to look at
    first is one that does not fit, else the fullest; with `chosen`, that of `snapshot`. Raises InputError for a
    snapshot that no trace wrote."""
    if traced is None:
        raise InputError(f"{snapshot.source} is a memory snapshot, but not one that oomph traced.")
    devices = _devices(snapshot, analyses)
    if devices and not chosen:
        snapshot = replace(snapshot, shown=_shown(devices, snapshot.shown))
    failed = traced.failed
    largest = sorted(traced.unruled.items(), key=lambda one: (-one[1][1], one[0]))
    return TraceReport(
        command=command,
        gpu=traced.gpu,
        torch=traced.torch,
        installed_torch=traced.installed_torch,
        rank=traced.rank,
        world=traced.world,
        capacity_bytes=traced.capacity_bytes,
        steps_done=traced.steps_done,
        operators=traced.operators,
        seconds=traced.seconds,
        snapshot=snapshot,
        devices=devices,
        suppressed=traced.suppressed,
        unruled=tuple(Unruled(name, times, size) for name, (times, size) in largest),
        uncertain_bytes=traced.uncertain_bytes,
        assumptions=traced.assumptions,
        notes=traced.notes,
        failed=None
        if failed is None
        else Ending(failed.kind, failed.text, failed.traceback, failed.out_of_memory),
    )


def _shown(devices: Sequence[DeviceTrace], first: int) -> int:
    """The place of the device to look at; `first` among equals."""

    def rank(place: int) -> tuple[bool, bool, int, bool]:
        device = devices[place]
        predicted = device.prediction
        return predicted.fits is False, device.surely_fails, predicted.peak.most_bytes, place == first

    return max(range(len(devices)), key=rank)


def _devices(snapshot: SnapshotReport, analyses: Sequence[Analysis]) -> tuple[DeviceTrace, ...]:
    return tuple(
        _device(analysis, device) for analysis, device in zip(analyses, snapshot.devices, strict=True)
    )


def _device(analysis: Analysis, device: DeviceReport) -> DeviceTrace:
    failure = device.failure
    ran_out = failure is not None and not failure.caught
    played = played_of(analysis)
    first, fullest = _first_and_later(step_peaks(analysis, played))
    return DeviceTrace(
        index=analysis.index,
        prediction=prediction_of(analysis, ran_out=ran_out, played=played),
        orders=orders_for(analysis),
        phases=phase_rows(analysis),
        first_step=first,
        fullest_step=fullest,
        activations=_parts(analysis, Category.ACTIVATIONS),
        temporaries=_parts(analysis, Category.TEMPORARIES),
        ran_out=ran_out,
    )


def _first_and_later(peaks: Sequence[StepPeak]) -> tuple[StepPeak | None, StepPeak | None]:
    """The first step, and the later one in which the most was allocated, with the most that any later one reserved:
    memory that a step caches is there in the next."""
    if not peaks:
        return None, None
    later = max(peaks[1:], key=lambda peak: (peak.allocated_bytes, peak.reserved_bytes), default=None)
    if later is not None:
        later = replace(later, reserved_bytes=max(peak.reserved_bytes for peak in peaks[1:]))
    return peaks[0], later


def _parts(analysis: Analysis, category: Category) -> tuple[Part, ...]:
    """The blocks of a category by label, in which numbers are one: layers that are alike are one row."""
    exact = analysis.exact
    if exact is None:
        return ()
    every = np.flatnonzero(analysis.block_category == CATEGORIES.index(category))
    alive = np.isin(every, analysis.alive)
    names = list(map(pattern_of, exact.labels))
    groups = {name: number for number, name in enumerate(dict.fromkeys(names))}
    group_of = np.array([groups[name] for name in names] or [0], np.intp)
    groups_of_rows = group_of[analysis.block_label[every]]
    sizes = _sizes(analysis, every, alive)
    parts = []
    for name, number in groups.items():
        mine = groups_of_rows == number
        if mine.any():
            now = mine & alive
            parts.append(
                Part(name, int(sizes[now].sum()), int(now.sum()), int(sizes[mine].max()), int(mine.sum()))
            )
    parts.sort(key=lambda part: (-part.bytes, -part.largest_bytes, part.label))
    return tuple(parts[:MOST_PARTS])


def _sizes(analysis: Analysis, rows: NDArray[np.intp], alive: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Each block's bytes, of those alive at the moment as they lie in their segment."""
    sizes: NDArray[np.int64] = analysis.lifetimes.size_bytes[rows].copy()
    place = np.searchsorted(analysis.alive, rows[alive])
    sizes[alive] = analysis.alive_bytes[place]
    return sizes
