"""Comparisons of snapshots built by hand."""

from __future__ import annotations

from oomph.diagnose.model import Certainty
from oomph.diagnose.snapshot.compare_model import (
    CategoryRow,
    Change,
    Deviation,
    SettingRow,
    Side,
    SnapshotComparison,
    StackRow,
)
from oomph.memory.categories import Category
from oomph.memory.stacks import Frame
from oomph.units import GIB, MIB
from tests.report.snapshot.fakes import ACTIVATION_STACK, BLOCK, NATIVE, TRAIN


def side(label: str, source: str, allocated: int, **more) -> Side:
    """A device at its peak, with 256 MiB cached."""
    fields = {
        "label": label,
        "source": source,
        "device": 0,
        "moment": "peak allocated",
        "position": 7000,
        "events": 8000,
        "allocated_bytes": allocated,
        "reserved_bytes": allocated + 256 * MIB,
        "peak_allocated_bytes": allocated,
        "peak_reserved_bytes": allocated + 256 * MIB,
        "blocks": 2000,
        **more,
    }
    return Side(**fields)


def stack_row(change: Change, category: Category, frames: tuple[Frame, ...], a: int, b: int) -> StackRow:
    """Blocks of one stack, ten on each side that has any."""
    own = [frame for frame in frames if frame.file.startswith("/workspace")]
    return StackRow(change, frames, own[0] if own else None, category, a, b, 10 if a else 0, 10 if b else 0)


def two_compared() -> SnapshotComparison:
    """B holds 6 GiB of activations more than A, and 2 GiB of gradients less."""
    return SnapshotComparison(
        what="two",
        noun="snapshots",
        sides=(side("A", "runs/monday.pickle", 20 * GIB), side("B", "runs/friday.pickle", 24 * GIB)),
        says="B has 24.00 GiB allocated, 4.00 GiB more than A (20.00 GiB).",
        categories=(
            CategoryRow(Category.ACTIVATIONS, (4 * GIB, 10 * GIB), 4 * GIB),
            CategoryRow(Category.GRADIENTS, (2 * GIB, 0), 2 * GIB),
            CategoryRow(Category.PARAMETERS, (14 * GIB, 14 * GIB), 14 * GIB),
        ),
        stacks=(
            stack_row(Change.NEW, Category.ACTIVATIONS, (BLOCK, TRAIN), 0, 5 * GIB),
            stack_row(Change.GONE, Category.GRADIENTS, (NATIVE,), 2 * GIB, 0),
            stack_row(Change.GROWN, Category.ACTIVATIONS, ACTIVATION_STACK, 4 * GIB, 5 * GIB),
        ),
        left_out=3,
        left_out_bytes=5 * MIB,
        settings=(SettingRow("expandable_segments", ("False", "True")),),
        certainty=Certainty.LIKELY,
        notes=("the moments are not of one kind",),
    )


def ranks_compared() -> SnapshotComparison:
    """Rank 5 of 6 holds 8 GiB of activations more than the others."""
    sizes = (20 * GIB,) * 5 + (28 * GIB,)
    sides = tuple(
        side(f"rank {rank}", f"runs/rank{rank}.pickle", size, rank=rank) for rank, size in enumerate(sizes)
    )
    row = stack_row(Change.GROWN, Category.ACTIVATIONS, (BLOCK, TRAIN), 6 * GIB, 14 * GIB)
    return SnapshotComparison(
        what="many",
        noun="ranks",
        sides=sides,
        says="Rank 5 has 28.00 GiB allocated, 8.00 GiB more than rank 0.",
        categories=(
            CategoryRow(Category.ACTIVATIONS, (6 * GIB,) * 5 + (14 * GIB,), 6 * GIB),
            CategoryRow(Category.PARAMETERS, (14 * GIB,) * 6, 14 * GIB),
        ),
        deviations=(Deviation("rank 5", 5, 8 * GIB, ((Category.ACTIVATIONS, 8 * GIB),), (row,)),),
        alike=("rank 0", "rank 1", "rank 2", "rank 3", "rank 4"),
        alike_bytes=0,
        threshold_bytes=205 * MIB,
    )
