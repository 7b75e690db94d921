"""The parts of the text report about what was alive: categories, stacks, phases, free lists."""

from __future__ import annotations

from collections.abc import Sequence

from oomph.diagnose.snapshot.model import DeviceReport, Holder, PoolUse, Share
from oomph.memory.categories import Category
from oomph.phases import Phase
from oomph.report.clean import flat
from oomph.report.layout import wrap
from oomph.report.options import ReportOptions
from oomph.report.snapshot.places import NO_STACK
from oomph.report.snapshot.tables import aligned, aligned_rows
from oomph.report.snapshot.text_failure import stack_lines
from oomph.report.snapshot.view import SnapshotView
from oomph.report.snapshot.words import holder_place, percent, phase_of, pool_words, told_by
from oomph.report.words import plural
from oomph.units import format_bytes

#: A free list with less than this part of what is reserved is of no interest.
_LEAST_POOL = 0.02


def alive_lines(
    view: SnapshotView, device: DeviceReport, options: ReportOptions, *, stacks: bool
) -> list[str]:
    """The table of categories, then the stacks that hold the most."""
    width = options.columns
    lines = aligned(share_rows(device.shares), width, "lrrrl")
    lines += phase_lines(device, width) + born_lines(device, width)
    if not device.holders:
        return lines
    heads = ("size", "blocks", "category", "phase", "allocated at")
    rows = [heads, *(holder_row(holder) for holder in device.holders)]
    lines += [""] if lines else []
    if not stacks:
        lines += aligned(rows, width, "rrlll")
    else:
        whole = all(getattr(options, name, False) for name in ("everything", "stacks"))
        lines += _with_stacks(device.holders, rows, width, whole=whole)
    rest = view.holders_left_out
    if rest.stacks:
        noun = "other stack" if stacks else "other place"
        told = f"{format_bytes(rest.bytes)} in {plural(rest.blocks, 'block')} of {plural(rest.stacks, noun)}"
        lines += wrap(f"and {told}; --all lists them", width, "  ")
    return lines


def share_rows(shares: Sequence[Share]) -> list[tuple[str, ...]]:
    """Heads and one row for each category, in the order of what they hold; [] where nothing was alive."""
    if not shares:
        return []
    total = sum(share.bytes for share in shares)
    rows = [("category", "size", "share", "blocks", "told by")]
    for share in sorted(shares, key=lambda one: -one.bytes):
        how = told_by(share.how, share.certainty)
        if share.category is Category.UNKNOWN:
            how = "nothing tells"
        rows.append(
            (
                str(share.category),
                format_bytes(share.bytes),
                percent(share.bytes, total),
                f"{share.blocks:,}",
                how,
            )
        )
    blocks = sum(share.blocks for share in shares)
    return [*rows, ("in all", format_bytes(total), "", f"{blocks:,}", "")]


def holder_row(holder: Holder) -> tuple[str, ...]:
    """Size, blocks, category, phase and place of one stack's blocks."""
    phase = "" if holder.phase is Phase.UNKNOWN else str(holder.phase)
    return (
        format_bytes(holder.bytes),
        f"{holder.blocks:,}",
        str(holder.category),
        phase,
        _place(holder),
    )


def _place(holder: Holder) -> str:
    """Where it was allocated, and what a trace knows it belongs to; that alone where there is no stack."""
    place, label = holder_place(holder), flat(holder.label)
    if not label:
        return place
    return f"of {label}" if place == NO_STACK else f"{place}, {label}"


def _with_stacks(
    holders: Sequence[Holder], rows: Sequence[tuple[str, ...]], width: int, *, whole: bool
) -> list[str]:
    """The table of stacks with the frames of each below its row."""
    lines = []
    for told, holder in zip(aligned_rows(rows, width, "rrlll"), [None, *holders], strict=True):
        lines += told
        if holder is not None:
            lines += stack_lines(holder.frames, width, "      ", whole=whole)
            lines += wrap(holder_remarks(holder), width, "      ")
    return lines


def holder_remarks(holder: Holder) -> str:
    """How its category was told, its largest block, and the steps in which its blocks were born."""
    told = [f"category told by {told_by(holder.how, holder.certainty)}"]
    if holder.category is Category.UNKNOWN:
        told = ["nothing tells what it is"]
    if holder.blocks > 1:
        told.append(f"largest block {format_bytes(holder.largest_bytes)}")
    if holder.first_step is not None and holder.last_step is not None:
        first, last = holder.first_step, holder.last_step
        told.append(f"born in step {first:,}" if first == last else f"born in steps {first:,} to {last:,}")
    return "; ".join(told)


def phase_lines(device: DeviceReport, width: int) -> list[str]:
    """Bytes alive by the phase that allocated them; [] where one phase, or none, is known."""
    known = {phase: size for phase, size in device.phases.items() if size > 0}
    if len(known) < 2:
        return []
    total = sum(known.values())
    told = [
        f"{format_bytes(size)} {'in an unknown phase' if phase is Phase.UNKNOWN else phase_of(phase)} "
        f"({percent(size, total)})"
        for phase, size in sorted(known.items(), key=lambda item: -item[1])
    ]
    return wrap(f"Allocated {', '.join(told)}.", width, "  ")


def born_lines(device: DeviceReport, width: int) -> list[str]:
    """Bytes alive by the training step in which they were allocated: this one, the ones before it, the first, and
    what is older; [] where all is of one."""
    now = device.moment.step
    if now is None:
        return []
    sums = {"in this one": 0, _before(now): 0, "in step 0": 0, "before step 0": 0}
    for step, size in device.born_in.items():
        name = "in this one" if step == now else "before step 0" if step < 0 else "in step 0"
        sums[_before(now) if 0 < step < now else name] += size
    known = [f"{format_bytes(size)} {name}" for name, size in sums.items() if size]
    return wrap(f"By training step: {', '.join(known)}.", width, "  ") if len(known) > 1 else []


def _before(step: int) -> str:
    return "in step 1" if step <= 2 else f"in steps 1 to {step - 1:,}"


def pool_lines(device: DeviceReport, width: int, *, everything: bool) -> list[str]:
    """The free lists, where more than one is of interest."""
    pools = pools_of_interest(device, everything=everything)
    if len(pools) < 2 and not everything:
        return []
    return aligned(pool_rows(pools), width, "rrrrl")


def pool_rows(pools: Sequence[PoolUse]) -> list[tuple[str, ...]]:
    """Heads and one row for each free list; [] for none."""
    if not pools:
        return []
    heads = ("reserved", "cached", "largest hole", "holes", "free list")
    return [
        heads,
        *(
            (
                format_bytes(pool.reserved_bytes),
                format_bytes(pool.cached_bytes),
                format_bytes(pool.largest_hole_bytes),
                f"{pool.holes:,}",
                pool_words(pool),
            )
            for pool in sorted(pools, key=lambda one: -one.reserved_bytes)
        ),
    ]


def pools_of_interest(device: DeviceReport, *, everything: bool) -> list[PoolUse]:
    """Those that hold a noticeable part of what is reserved; all of them with `everything`."""
    total = sum(pool.reserved_bytes for pool in device.pools)
    return [pool for pool in device.pools if everything or pool.reserved_bytes >= _LEAST_POOL * total]
