"""A ledger cut into the parts of its capacity, and those parts into cells of a bar.

What is known decides the cut: other processes and outside apart, or only their sum; allocated and cached apart, or
only what is reserved. What nothing says is a part of its own, "unknown".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from oomph.memory.ledger import SIMULATED, Ledger
from oomph.units import Amount


@dataclass(frozen=True)
class Part:
    """One stretch of the bar and its line in the legend.

    `key` names its look, `field` the ledger's field (for how it is known; "" when there is none). The legend shows
    `shown_bytes` where that is more than the stretch: all that is allocated, private pools included.
    """

    key: str
    name: str
    size_bytes: int
    field: str = ""
    remark: str = ""
    shown_bytes: int | None = None


def split(ledger: Ledger) -> tuple[Part, ...]:
    """The parts of the capacity in the order of the bar, parts of 0 bytes included; () when nothing is known.

    A derived part that is no larger than its rounding may be nothing at all: its stretch is 0. When printed numbers
    contradict each other, what was derived from them means nothing: only printed numbers are parts then.
    """
    if ledger.problems:
        ledger = printed_only(ledger)
    parts = [*_not_torch(ledger), *_torch(ledger)]
    if ledger.free_bytes is not None:
        parts.append(Part("free", "free", ledger.free_bytes, "free_bytes"))
    if not parts:
        return ()
    parts = [_without_rounding(ledger, part) for part in parts]
    rest = _left_over(ledger, parts)
    if rest:
        position = len(parts) - (parts[-1].key == "free")
        parts.insert(position, Part("unknown", "unknown", rest, "", "the rest of the capacity"))
    return tuple(parts)


def printed_only(ledger: Ledger) -> Ledger:
    """The ledger without the numbers that were derived."""
    printed = {
        name: Amount(getattr(ledger, name), ledger.slack_bytes.get(name, 0))
        for name, origin in ledger.origins.items()
        if origin in ("printed", "recorded", SIMULATED)
    }
    return Ledger(
        **{name: size.bytes for name, size in printed.items()},
        origins=dict.fromkeys(printed, "printed"),
        slack_bytes={name: size.slack_bytes for name, size in printed.items()},
        problems=ledger.problems,
    )


def is_rounding(ledger: Ledger, field: str) -> bool:
    """Whether a field was derived and is no larger than the rounding of the numbers that it was derived from."""
    value = getattr(ledger, field, None)
    if value is None or not ledger.origins.get(field, "").startswith("="):
        return False
    slack = ledger.slack_bytes.get(field, 0)
    return bool(slack and value <= slack)


def _without_rounding(ledger: Ledger, part: Part) -> Part:
    if not is_rounding(ledger, part.field):
        return part
    return replace(
        part, size_bytes=0, shown_bytes=part.size_bytes if part.shown_bytes is None else part.shown_bytes
    )


def _not_torch(ledger: Ledger) -> list[Part]:
    """What the allocator of this process does not see. In a trace the capacity is what is PyTorch's."""
    parts: list[Part] = []
    if ledger.origins.get("capacity_bytes") == SIMULATED and not ledger.not_torch_bytes:
        return parts
    if ledger.other_processes_bytes is not None:
        parts.append(Part("other", "other processes", ledger.other_processes_bytes, "other_processes_bytes"))
    if ledger.outside_bytes is not None:
        remark = "CUDA context, NCCL, other libraries"
        parts.append(Part("outside", "outside", ledger.outside_bytes, "outside_bytes", remark))
    if ledger.not_torch_bytes is None or len(parts) == 2:
        return parts
    if not parts:
        together = "outside + other processes"
        return [Part("not_torch", "not PyTorch's", ledger.not_torch_bytes, "not_torch_bytes", together)]
    rest = ledger.unexplained_bytes or 0
    return [*parts, Part("unknown", "unexplained", rest, "", "not PyTorch's")] if rest else parts


def _torch(ledger: Ledger) -> list[Part]:
    """What PyTorch holds."""
    parts = []
    if ledger.allocated_bytes is not None:
        pools = min(ledger.private_pool_bytes or 0, ledger.allocated_bytes)
        rest = ledger.allocated_bytes - pools
        parts.append(
            Part("allocated", "allocated", rest, "allocated_bytes", shown_bytes=ledger.allocated_bytes)
        )
        if ledger.private_pool_bytes is not None:
            remark = "part of allocated (CUDA graphs)"
            parts.append(Part("pools", "private pools", pools, "private_pool_bytes", remark))
    if ledger.cached_bytes is not None:
        remark = "reserved, not handed out"
        parts.append(Part("cached", "cached", ledger.cached_bytes, "cached_bytes", remark))
    held = sum(part.size_bytes for part in parts)
    if ledger.reserved_bytes is not None and None in (ledger.allocated_bytes, ledger.cached_bytes):
        rest = max(0, ledger.reserved_bytes - held)
        parts.append(Part("reserved", "reserved", rest, "reserved_bytes", "allocated + cached"))
    elif ledger.reserved_bytes is None and ledger.process_bytes is not None:
        rest = max(0, ledger.process_bytes - held)
        name = "rest of the process" if parts else "this process"
        parts.append(Part("reserved", name, rest, "process_bytes", "PyTorch + outside"))
    return parts


def _left_over(ledger: Ledger, parts: Sequence[Part]) -> int:
    """Bytes of the capacity that no part accounts for, 0 where rounding explains them."""
    if ledger.capacity_bytes is None:
        return 0
    slack = sum(ledger.slack_bytes.get(part.field, 0) for part in parts)
    slack += ledger.slack_bytes.get("capacity_bytes", 0)
    rest = ledger.capacity_bytes - sum(part.size_bytes for part in parts)
    return rest if rest > slack else 0


def share(sizes: Sequence[int], cells: int) -> list[int]:
    """`cells` cells in proportion to `sizes`: at least one for every size that is not 0, the largest pay for it.

    The sum is `cells` (or the number of parts, should there be fewer cells than parts); [0, ...] for no bytes.
    """
    total = sum(sizes)
    if total == 0:
        return [0] * len(sizes)
    exact = [size * cells / total for size in sizes]
    given = [max(1, int(value)) if size else 0 for value, size in zip(exact, sizes, strict=True)]
    while sum(given) < cells:
        index = max(range(len(sizes)), key=lambda i: (exact[i] - given[i], sizes[i]))
        given[index] += 1
    while sum(given) > cells and max(given) > 1:
        index = max(
            (i for i in range(len(sizes)) if given[i] > 1), key=lambda i: (given[i] - exact[i], given[i])
        )
        given[index] -= 1
    return given
