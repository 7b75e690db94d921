"""What `oomph snapshot` refuses before it reads anything: a large file takes a while, a wrong option should not."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from oomph.cli.output import check_target
from oomph.errors import UsageError

if TYPE_CHECKING:
    from oomph.cli.snapshot import Request

#: Values of `--format`; a project's setting of another one (sarif) is for `explain`.
FORMATS = ("text", "json", "markdown", "html")

_END = r"(?:\d{1,18}|\d{1,12}(?:\.\d{1,9})?\s*s)"
_WINDOW = re.compile(rf"\s*({_END})?\s*:\s*({_END})?\s*")
#: PyTorch 2.10 took settings apart in a new way: what both ways refuse is refused.
_VERSIONS = ((2, 13), (2, 6))


def check(request: Request, output_format: str) -> None:
    """Raises UsageError for options that make no sense, or not together."""
    _check_files(request.files)
    if request.target is not None:
        check_target(request.target, request.files)
    _check_exports(request)
    if request.compare and output_format == "html":
        raise UsageError("--compare prints text, JSON or Markdown; leave --format html out")
    if len(request.files) > 1 and output_format == "html":
        raise UsageError("--format html shows one snapshot; name one file")
    capacity_of(request.capacity)
    for setting in request.what_if:
        check_setting(setting)


def _check_files(files: Sequence[str]) -> None:
    for name in files:
        if not name.strip():
            raise UsageError("a FILE is empty (an unset variable?): name a snapshot")
        if name == "-":
            raise UsageError("a snapshot is not read from standard input: name its file")
    known: dict[str, str] = {}
    for name in files:
        place = str(Path(name).resolve()) if "\0" not in name else name
        if place in known:
            raise UsageError(f"{name} is named twice")
        known[place] = name


def _check_exports(request: Request) -> None:
    if not request.export:
        if request.window is not None:
            raise UsageError(
                "--window is the part of the trace that --export writes; name a file with --export"
            )
        return
    if len(request.files) > 1:
        raise UsageError("--export takes one snapshot; name one file")
    from oomph.report.exports import check_export, ending_of

    for path in request.export:
        check_export(path, request.files)
    if request.window is not None and all(ending_of(path) == ".speedscope.json" for path in request.export):
        raise UsageError("--window is for events; .speedscope.json shows one moment: say which with --at")
    targets = [*request.export, *([] if request.target is None else [str(request.target)])]
    check_apart(targets)
    if request.window is not None:
        window_ends(request.window)


def check_apart(outputs: Sequence[str]) -> None:
    """Raises UsageError where two outputs are one file."""
    places = [Path(output).resolve() for output in outputs]
    for number, place in enumerate(places):
        if place in places[:number]:
            raise UsageError(f"{outputs[number]}: two outputs go to this file; give each a path of its own")


def capacity_of(capacity: str | None) -> int | None:
    """The bytes of --capacity; None without it. Raises UsageError for what is no size."""
    if capacity is None:
        return None
    from oomph.units import size_given

    size = size_given(capacity)
    if size is None:
        raise UsageError(f"--capacity {capacity[:60]!r} is no size; give one like 78GiB, or bytes")
    return size


def check_setting(setting: str) -> None:
    """Raises UsageError, with PyTorch's reason, for allocator settings that no version of PyTorch accepts."""
    word = setting.strip()
    if word in ("all", "empty_cache", "defaults"):
        return
    if word.startswith("capacity:"):
        from oomph.units import size_given

        if size_given(word.removeprefix("capacity:")) is None:
            raise UsageError(f"--what-if {word[:60]!r}: not a size; give one like capacity:40GiB")
        return
    from oomph.memory.allocator.settings import AllocatorSettings

    reasons = []
    for version in _VERSIONS:
        try:
            AllocatorSettings.parse(word, torch=version)
        except UsageError as error:
            reasons.append(str(error))
    if not word or len(reasons) == len(_VERSIONS):
        why = f"PyTorch refuses it: {reasons[0]}" if word else "it is empty"
        raise UsageError(
            f"--what-if {setting[:60]!r}: {why.rstrip('.')}. Give all, empty_cache, capacity:SIZE or settings like "
            "expandable_segments:True"
        )


def window_ends(window: str) -> tuple[str | None, str | None]:
    """The two ends of --window as they were written. Raises UsageError for what is no window."""
    match = _WINDOW.fullmatch(window)
    if match is None or not (match[1] or match[2]):
        raise UsageError(
            f"--window {window[:60]!r} is no window; give FROM:TO as numbers of events (1000:2000) or seconds (1s:2.5s)"
        )
    return match[1], match[2]
