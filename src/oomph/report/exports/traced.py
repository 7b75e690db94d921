"""What a trace knows beside its snapshot, for a part of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from oomph.diagnose.snapshot.moments import fatal_oom
from oomph.evidence.snapshot import Columns, Traced
from oomph.evidence.snapshot.traced import SCHEMA_VERSION
from oomph.memory.timeline import Kind
from oomph.report.exports.names import Names

if TYPE_CHECKING:
    from oomph.diagnose.snapshot.analysis import Analysis


def texts_of(traced: Traced | None) -> list[str]:
    """All text in it that may hold names."""
    if traced is None:
        return []
    labels = [label for columns in traced.columns.values() for label in columns.labels]
    failed = [] if traced.failed is None else [traced.failed.text, traced.failed.traceback]
    return [*labels, *traced.suppressed, *traced.assumptions, *traced.notes, *failed]


def traced_part(analysis: Analysis, first: int, last: int, names: Names) -> dict[str, Any] | None:
    """The key "oomph" (docs/trace.md) of the events [first, last) of one device; None for a real run's snapshot. Steps
    are counted from the first that the part has. `names` treats all text."""
    traced, columns = analysis.snapshot.traced, analysis.exact
    if traced is None or columns is None:
        return None
    step = columns.step[first:last]
    skipped = int(step[0]) if len(step) else 0
    whole = last == len(analysis.timeline)
    done = (traced.steps_done if whole else int(step.max(initial=0))) - skipped
    fatal = fatal_oom(analysis.timeline)
    ends_it = traced.failed is not None and traced.failed.out_of_memory and fatal is not None
    failed = traced.failed if whole or (ends_it and first <= (fatal or 0) < last) else None
    return {
        "schema_version": SCHEMA_VERSION,
        "kind": "trace",
        "gpu": traced.gpu,
        "torch": traced.torch,
        "installed_torch": traced.installed_torch,
        "rank": traced.rank,
        "world": traced.world,
        "capacity_bytes": traced.capacity_bytes,
        "steps_done": max(0, done),
        "operators": traced.operators,
        "seconds": traced.seconds,
        "windows": {},
        "suppressed": list(map(names.text, traced.suppressed)),
        "unruled": {operator: list(numbers) for operator, numbers in traced.unruled.items()},
        "uncertain_bytes": traced.uncertain_bytes,
        "assumptions": list(map(names.text, traced.assumptions)),
        "notes": list(map(names.text, traced.notes)),
        "failed": None
        if failed is None
        else {
            "kind": failed.kind,
            "text": names.lines(failed.text),
            "traceback": names.lines(failed.traceback),
            "out_of_memory": failed.out_of_memory,
        },
        "devices": {analysis.index: _columns(analysis, columns, first, last, skipped, names)},
    }


def _columns(
    analysis: Analysis, columns: Columns, first: int, last: int, skipped: int, names: Names
) -> dict[str, Any]:
    allocs = analysis.timeline.positions(Kind.ALLOC)
    begin, end = np.searchsorted(allocs, [first, last]).tolist()
    lives = analysis.lifetimes
    held = np.flatnonzero((lives.born < first) & (lives.done >= first))
    before = {
        address: [category, label]
        for address, category, label in zip(
            lives.address[held].tolist(),
            analysis.block_category[held].tolist(),
            analysis.block_label[held].tolist(),
            strict=True,
        )
        if label >= 0
    }
    return {
        "phase": _runs(columns.phase[first:last]),
        "step": _runs(columns.step[first:last] - skipped),
        "category": columns.category[begin:end].tolist(),
        "label": columns.label[begin:end].tolist(),
        "labels": list(map(names.text, columns.labels)),
        "before": before,
    }


def _runs(values: NDArray[np.int8] | NDArray[np.int32]) -> list[int]:
    """As [value, how often, value, how often, ...]."""
    if not len(values):
        return []
    begins = np.concatenate(([0], np.flatnonzero(np.diff(values)) + 1))
    counts = np.diff(np.concatenate((begins, [len(values)])))
    pairs = np.stack((values[begins].astype(np.int64), counts), axis=1)
    result: list[int] = pairs.reshape(-1).tolist()
    return result
