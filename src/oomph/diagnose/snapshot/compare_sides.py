"""What is compared: what each side is called, whether the sides are ranks of one job, and how they are set."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING

from oomph.diagnose.snapshot.compare_model import SettingRow, Side
from oomph.evidence.sources.ranks import place_files
from oomph.memory.allocator.settings import AllocatorSettings
from oomph.units import format_bytes

if TYPE_CHECKING:
    from oomph.diagnose.snapshot.analysis import Analysis

#: What people name a rank's own file by, besides what logs are named by (`evidence.sources.ranks`): r3, gpu3, cuda_3.
_NUMBERED = re.compile(
    r"(?<![a-z])(?:r|gpu|cuda|device|local[-_]?rank|dp|ddp|fsdp)[-_]?(\d{1,6})(?!\d)", re.IGNORECASE
)


@dataclass(frozen=True)
class Named:
    """An analysis with what to call it."""

    label: str
    analysis: Analysis
    rank: int | None = None


def named(items: Sequence[tuple[str, Analysis]]) -> tuple[str, list[Named]]:
    """What the sides are ("ranks", "devices", "moments", "snapshots"), and each with its label; ranks in their order,
    where there are more than two."""
    sources = [analysis.snapshot.source for _, analysis in items]
    distinct = set(sources)
    if len(distinct) == 1:
        if len({analysis.index for _, analysis in items}) == len(items):
            return "devices", [Named(f"device {analysis.index}", analysis) for _, analysis in items]
        if len({analysis.index for _, analysis in items}) == 1:
            return "moments", [Named(f"event {analysis.moment.position}", analysis) for _, analysis in items]
    ranks = ranks_of(sources) if len(distinct) == len(items) else None
    if ranks is not None:
        sides = [
            Named(f"rank {rank}", analysis, rank) for rank, (_, analysis) in zip(ranks, items, strict=True)
        ]
        return "ranks", sides if len(sides) < 3 else sorted(sides, key=lambda side: side.rank or 0)
    labels = [label for label, _ in items]
    if len(set(labels)) < len(labels):
        labels = [f"{label} ({number})" for number, label in enumerate(labels, 1)]
    return "snapshots", [Named(label, analysis) for label, (_, analysis) in zip(labels, items, strict=True)]


def ranks_of(sources: Sequence[str]) -> list[int] | None:
    """The rank that each file's name tells; None unless it tells a different one of each. The files of one job's ranks
    differ in nothing but that number (and a time, which each rank takes for itself)."""
    ranks = [place.rank for place in place_files(sources, {})]
    found = [rank for rank in ranks if rank is not None]
    if len(found) < len(sources):
        matches = [list(_NUMBERED.finditer(PurePath(source.replace("\\", "/")).name)) for source in sources]
        if not all(matches):
            return None
        rests = {
            re.sub(r"\d+", "0", source[: -len(PurePath(source).name)])
            + re.sub(r"\d+", "0", PurePath(source).name)
            for source in sources
        }
        if len(rests) > 1:
            return None
        found = [int(each[-1][1]) for each in matches]
    return found if len(set(found)) == len(sources) else None


def side_of(one: Named) -> Side:
    """The numbers of one side."""
    analysis, moment = one.analysis, one.analysis.moment
    layout = analysis.layout
    allocated = int(analysis.alive_bytes.sum())
    reserved = sum(segment.size for segment in layout)
    has_events = len(analysis.timeline) > 0
    return Side(
        label=one.label,
        source=analysis.snapshot.source,
        device=analysis.index,
        moment=moment.kind,
        position=moment.position,
        events=len(analysis.timeline),
        allocated_bytes=allocated,
        reserved_bytes=reserved,
        peak_allocated_bytes=max(_peak_allocated(analysis), allocated),
        peak_reserved_bytes=max(int(analysis.reserved_bytes[analysis.within].max()), reserved)
        if has_events
        else reserved,
        blocks=len(analysis.alive),
        rank=one.rank,
        step=moment.step,
        settings=analysis.snapshot.conf_text or "",
        traced=analysis.snapshot.traced is not None,
    )


def _peak_allocated(analysis: Analysis) -> int:
    part = analysis.within
    if part.stop - part.start == len(analysis.timeline):
        return analysis.peak_allocated_bytes
    return int(analysis.allocated_bytes[part].max())


def settings_that_differ(sides: Sequence[Named]) -> tuple[SettingRow, ...]:
    """The allocator's settings, and the snapshots' formats, that are not the same everywhere."""
    texts = [_settings(side.analysis) for side in sides]
    rows = []
    for name in texts[0]:
        values = tuple(text[name] for text in texts)
        if len(set(values)) > 1:
            rows.append(SettingRow(name, values))
    return tuple(rows)


def _settings(analysis: Analysis) -> dict[str, str]:
    snapshot = analysis.snapshot
    recorded = snapshot.conf_text is not None or bool(snapshot.conf)
    settings: AllocatorSettings = analysis.settings
    shown = {
        "max_split_size_mb": _size(settings.max_split_size_bytes),
        "garbage_collection_threshold": f"{settings.garbage_collection_threshold:g}",
        "roundup_power2_divisions": ",".join(map(str, settings.roundup_power2_divisions)) or "off",
        "large_segment_size_mb": _size(settings.large_segment_size_bytes),
        "max_non_split_rounding_mb": _size(settings.max_non_split_rounding_bytes),
    }
    if not recorded:
        shown = dict.fromkeys(shown, "not recorded")
    # Expandable segments show themselves in segments, whether settings were recorded or not.
    return {
        "snapshot format": snapshot.era.name,
        "expandable_segments": str(settings.expandable_segments),
        **shown,
    }


def _size(size_bytes: int | None) -> str:
    return "unlimited" if size_bytes is None else format_bytes(size_bytes)
