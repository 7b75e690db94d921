"""A failed request beside what there was for it, to one scale."""

from __future__ import annotations

from html import escape

from oomph.diagnose.snapshot.model import Failure
from oomph.units import format_bytes

_ROW = 24
_NAMES = 180
_BARS = 420
_SIZES = 120


def scale_svg(failure: Failure) -> str:
    """Bars for the request, the largest hole, what was cached for it, and what was free on the device."""
    bars = [
        ("asked", "request", failure.request_bytes),
        ("had", "largest hole for it", failure.hole_bytes),
        ("had", "cached, its own, in all", failure.cached_own_bytes),
    ]
    if failure.free_bytes is not None:
        where = "simulated card" if failure.simulated else "device"
        bars.append(("had", f"free on the {where}", failure.free_bytes))
    most = max(*(size for _, _, size in bars), 1)
    rows = []
    for number, (css, name, size) in enumerate(bars):
        top = number * _ROW
        width = max(1.0 if size else 0.0, _BARS * size / most)
        rows.append(
            f'<text x="{_NAMES - 8}" y="{top + 16}" text-anchor="end">{escape(name)}</text>'
            f'<rect class="{css}" x="{_NAMES}" y="{top + 4}" width="{width:.1f}" height="{_ROW - 8}"/>'
            f'<text x="{_NAMES + width + 8:.1f}" y="{top + 16}">{format_bytes(size)}</text>'
        )
    told = "; ".join(f"{name} {format_bytes(size)}" for _, name, size in bars)
    width, height = _NAMES + _BARS + _SIZES, len(bars) * _ROW
    return (
        f'<svg class="scale" role="img" aria-label="{escape(told)}" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}">{"".join(rows)}</svg>'
    )
