"""The parts of the text report about requests for which there was no room."""

from __future__ import annotations

import re
from collections.abc import Sequence

from oomph.diagnose.snapshot.model import DeviceReport, Failure, Retry
from oomph.diagnose.snapshot.places import is_python
from oomph.memory.stacks import Frame
from oomph.report.clean import flat
from oomph.report.layout import wrap
from oomph.report.options import ReportOptions
from oomph.report.snapshot.places import frame_line, is_users, place_in_sentence, place_of, stack_place
from oomph.report.snapshot.tables import aligned
from oomph.report.snapshot.view import python_frames
from oomph.report.snapshot.words import pool_name, sentence
from oomph.units import format_bytes

#: Pins and retries that are listed.
_PINS = 5
_RETRIES = 3
#: Frames of libraries, inside the user's code, and of the user's.
_LIBRARY_FRAMES = 2
_USER_FRAMES = 4
#: What stands between any two modules and says nothing.
_BETWEEN_MODULES = re.compile(r"torch/nn/modules/module\.py$")


def failure_lines(device: DeviceReport, failure: Failure, width: int) -> list[str]:
    """The verdict in words and the numbers that it rests on."""
    lines = wrap(sentence(failure.says), width, "  ")
    if device.moment.position != failure.position:
        lines += wrap(f"That was at event {failure.position:,}, not at the moment shown.", width, "  ")
    if device.failures > 1:
        lines += wrap(
            f"{device.failures:,} requests failed in this trace; this is about one of them.", width, "  "
        )
    return [*lines, "", *aligned(failure_rows(failure), width, "lrl")]


def failure_rows(failure: Failure) -> list[tuple[str, str, str]]:
    """(name, size, remark) of the numbers of a failed request."""
    own = "small" if failure.small else "large"
    asked = "asked of the simulated card" if failure.simulated else "asked of the driver"
    free = ("on the card", "simulated") if failure.simulated else ("on the device", "as the driver said")
    rows = [
        (
            "requested",
            failure.request_bytes,
            f"{own} block of the {pool_name(failure.pool)}, stream {failure.stream}",
        ),
        ("segment for it", failure.segment_bytes, asked),
        ("largest hole for it", failure.hole_bytes, "free block of its pool and stream"),
        ("cached for it", failure.cached_own_bytes, "all free blocks there"),
        ("cached in all", failure.cached_bytes, "in all pools and streams"),
        (f"free {free[0]}", failure.free_bytes, free[1]),
        ("short by", failure.short_by_bytes, "even with all of it in one piece"),
    ]
    told = []
    for name, size, remark in rows:
        if size is None:
            told.append((name, "unknown", "not recorded"))
        elif name == "short by" and size == 0:
            told.append(("in one piece", "enough", "all that was free, cached or not"))
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
        place = stack_place(pin.place or place_of(pin.frames), pin.frames)
        rows.append((format_bytes(pin.bytes), format_bytes(pin.hole_bytes), str(pin.category), place))
    more = len(failure.pins) - _PINS
    return (
        [*aligned(rows, width, "rrll"), *([f"  and {more:,} more"] if more > 0 else [])]
        if failure.pins
        else []
    )


def stack_lines(frames: Sequence[Frame], width: int, indent: str = "  ", *, whole: bool = False) -> list[str]:
    """The Python part of a stack, innermost first: without `whole`, how the user's code got there in a few lines.

    Where only C++ frames were recorded, those; without `whole` what they tell, in a line.
    """
    shown = list(python_frames(frames)) or list(frames)
    if not whole and frames and not any(map(is_python, frames)):
        return wrap(stack_place(None, frames), width, indent)
    if whole:
        return [line for frame in shown for line in wrap(frame_line(frame), width, indent)]
    telling = [
        frame for frame in shown if not _BETWEEN_MODULES.search(frame.file.replace("\\", "/"))
    ] or shown
    place = place_of(telling)
    user = telling.index(place) if place is not None and is_users(place) else 0
    head = telling[: min(user, _LIBRARY_FRAMES)]
    rest = telling[user : user + _USER_FRAMES]
    lines = [line for frame in head for line in wrap(frame_line(frame), width, indent)]
    if user > len(head):
        lines.append(f"{indent}... {user - len(head):,} more of libraries")
    lines += [line for frame in rest for line in wrap(frame_line(frame), width, indent)]
    more = len(telling) - user - len(rest)
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
    return [] if frame is None else wrap(f"requested at {place_in_sentence(frame)}", width, "    ")
