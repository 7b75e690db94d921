"""The part of the JSON document about what differs between snapshots."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, cast

from oomph.diagnose.snapshot import compare_model as model
from oomph.diagnose.trace.diverge import Act, Divergence
from oomph.report.snapshot import wire_compare as wire
from oomph.report.snapshot.json import Shared, place_of


def wire_comparison(comparison: model.SnapshotComparison, shared: Shared) -> wire.Comparison:
    """The comparison as the document has it."""
    return wire.Comparison(
        what=comparison.what,
        noun=comparison.noun,
        says=comparison.says,
        certainty=comparison.certainty.value,
        middle=comparison.middle,
        sides=[_side(side) for side in comparison.sides],
        categories=[
            wire.CategoryRow(
                category=row.category.value,
                bytes=list(row.bytes),
                reference_bytes=row.reference_bytes,
                difference_bytes=row.difference_bytes,
            )
            for row in comparison.categories
        ],
        stacks=_rows(comparison.stacks, shared),
        left_out=comparison.left_out,
        left_out_bytes=comparison.left_out_bytes,
        matching=[matching.value for matching in comparison.matching],
        settings=[wire.SettingRow(name=row.name, values=list(row.values)) for row in comparison.settings],
        deviations=[_deviation(deviation, shared) for deviation in comparison.deviations],
        alike=list(comparison.alike),
        alike_bytes=comparison.alike_bytes,
        threshold_bytes=comparison.threshold_bytes,
        notes=list(comparison.notes),
        divergence=None if comparison.divergence is None else _divergence(comparison.divergence, shared),
    )


def _side(side: model.Side) -> wire.Side:
    return wire.Side(
        label=side.label,
        source=side.source,
        device=side.device,
        rank=side.rank,
        moment=side.moment,
        position=side.position,
        step=side.step,
        events=side.events,
        allocated_bytes=side.allocated_bytes,
        reserved_bytes=side.reserved_bytes,
        cached_bytes=side.cached_bytes,
        peak_allocated_bytes=side.peak_allocated_bytes,
        peak_reserved_bytes=side.peak_reserved_bytes,
        blocks=side.blocks,
        settings=side.settings,
        traced=side.traced,
    )


def _divergence(divergence: Divergence, shared: Shared) -> wire.Divergence:
    return wire.Divergence(
        events_real=divergence.events_real,
        events_traced=divergence.events_traced,
        equal_before=divergence.equal_before,
        real=None if divergence.real is None else _act(divergence.real, shared),
        traced=None if divergence.traced is None else _act(divergence.traced, shared),
        only_real=divergence.only_real,
        only_traced=divergence.only_traced,
        other_block=divergence.other_block,
        complete=divergence.complete,
        began_at=divergence.began_at,
        sure_of_begin=divergence.sure_of_begin,
    )


def _act(act: Act, shared: Shared) -> wire.Act:
    return wire.Act(
        what=cast("Literal['alloc', 'free', 'end']", act.what),
        size_bytes=act.size_bytes,
        position=act.position,
        stack=shared.stack(act.frames),
        requested_by=shared.stack(act.requested_by),
    )


def _rows(rows: Iterable[model.StackRow], shared: Shared) -> list[wire.StackRow]:
    return [
        wire.StackRow(
            change=row.change.value,
            category=row.category.value,
            difference_bytes=row.difference_bytes,
            a_bytes=row.a_bytes,
            b_bytes=row.b_bytes,
            a_blocks=row.a_blocks,
            b_blocks=row.b_blocks,
            matching=row.matching.value,
            place=place_of(row.place),
            stack=shared.stack(row.frames),
        )
        for row in rows
    ]


def _deviation(deviation: model.Deviation, shared: Shared) -> wire.Deviation:
    return wire.Deviation(
        label=deviation.label,
        side=deviation.side,
        difference_bytes=deviation.difference_bytes,
        categories=[
            wire.CategoryDifference(category=category.value, bytes=size)
            for category, size in deviation.categories
        ],
        stacks=_rows(deviation.stacks, shared),
    )
