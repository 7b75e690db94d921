"""The parts of the text report about requests for which there was no room."""

from __future__ import annotations

from collections.abc import Sequence

from oomph.diagnose.snapshot.model import DeviceReport, Failure, Retry
from oomph.diagnose.snapshot.places import place_of
from oomph.memory.stacks import Frame
from oomph.report.clean import flat
from oomph.report.layout import wrap
from oomph.report.options import ReportOptions
from oomph.report.snapshot.tables import aligned
from oomph.report.snapshot.view import python_frames
from oomph.report.snapshot.words import frame_line, place_words
from oomph.units import format_bytes

#: Pins, retries and frames that are listed.
_PINS = 5
_RETRIES = 3
_FRAMES = 8
#: Frames between any two modules (torch/nn/modules/module.py) that say nothing.
_WRAPPERS = frozenset(("_call_impl", "_wrapped_call_impl"))


def failure_lines(device: DeviceReport, failure: Failure, width: int) -> list[str]:
    """The verdict in words and the numbers that it rests on."""
    lines = wrap(flat(failure.says), width, "  ")
    if device.failures > 1:
        lines += wrap(
            f"{device.failures:,} requests failed in this trace; this is about one of them.", width, "  "
        )
    return [*lines, "", *aligned(failure_rows(failure), width, "lrl")]


def failure_rows(failure: Failure) -> list[tuple[str, str, str]]:
    """(name, size, remark) of the numbers of a failed request."""
    own = "small" if failure.small else "large"
    pool = (
        "the default pool" if failure.pool == (0, 0) else f"private pool {failure.pool[0]}.{failure.pool[1]}"
    )
    rows = [
        ("requested", failure.request_bytes, f"{own} block of {pool}, stream {failure.stream}"),
        ("segment for it", failure.segment_bytes, "asked of the driver"),
        ("largest hole for it", failure.hole_bytes, "free block of its pool and stream"),
        ("cached for it", failure.cached_own_bytes, "all free blocks there"),
        ("cached in all", failure.cached_bytes, "in all pools and streams"),
        ("free on the device", failure.free_bytes, "as the driver said"),
        ("short by", failure.short_by_bytes, "even with all of it in one piece"),
    ]
    told = []
    for name, size, remark in rows:
        if size is None:
            told.append((name, "unknown", "not recorded"))
        elif name == "short by" and size == 0:
            told.append((name, "nothing", "in one piece it would have been enough"))
        else:
            told.append((name, format_bytes(size), remark))
    if failure.outside_growth_bytes:
        told.append(
            ("outside grew by", format_bytes(failure.outside_growth_bytes), "since PyTorch had the most")
        )
    return told


def pin_lines(failure: Failure, width: int) -> list[str]:
    """The blocks between the largest holes."""
    rows = [("block", "hole without it", "category", "allocated at")]
    for pin in failure.pins[:_PINS]:
        frame = pin.place or place_of(pin.frames)
        place = "no stack was recorded" if frame is None else place_words(frame)
        rows.append((format_bytes(pin.bytes), format_bytes(pin.hole_bytes), str(pin.category), place))
    more = len(failure.pins) - _PINS
    return (
        [*aligned(rows, width, "rrll"), *([f"  and {more:,} more"] if more > 0 else [])]
        if failure.pins
        else []
    )


def stack_lines(frames: Sequence[Frame], width: int, indent: str = "  ", *, whole: bool = False) -> list[str]:
    """The Python part of a stack, innermost first; without `whole` a few frames, up to the user's code.

    Where only C++ frames were recorded, those.
    """
    shown = list(python_frames(frames)) or list(frames)
    most = len(shown)
    if not whole:
        shown = [frame for frame in shown if frame.function not in _WRAPPERS] or shown
        place = place_of(shown)
        user = shown.index(place) + 1 if place is not None else 0
        most = min(len(shown), user + 1 if user else _FRAMES, _FRAMES)
    lines = [line for frame in shown[:most] for line in wrap(frame_line(frame), width, indent)]
    more = len(shown) - most
    return [*lines, f"{indent}and {more:,} more"] if more > 0 else lines


def retry_lines(device: DeviceReport, options: ReportOptions) -> list[str]:
    """What was given back, for which request, and where."""
    if not device.retries:
        return []
    most = len(device.retries) if getattr(options, "everything", False) else _RETRIES
    lines: list[str] = []
    for retry in device.retries[:most]:
        lines += wrap(f"event {retry.position:,}: {flat(retry.says)}", options.columns, "  - ")
        lines += _retry_place(retry, options.columns)
    more = len(device.retries) - most
    return [*lines, f"  and {more:,} more"] if more > 0 else lines


def _retry_place(retry: Retry, width: int) -> list[str]:
    frame = place_of(retry.frames)
    return [] if frame is None else wrap(f"requested at {place_words(frame)}", width, "    ")
