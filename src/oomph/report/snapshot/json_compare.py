"""The part of the JSON document about what differs between snapshots."""

from __future__ import annotations

from collections.abc import Iterable

from oomph.diagnose.snapshot import compare_model as model
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
