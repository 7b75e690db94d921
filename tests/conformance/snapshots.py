"""Replays every memory snapshot of a folder, exactly and blind, and counts what came out as recorded."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

from oomph.errors import OomphError
from oomph.evidence.snapshot import DeviceSnapshot, allocator_settings, read
from oomph.memory.allocator.settings import AllocatorSettings
from oomph.memory.replay import Replay, blind, exact
from tests.conformance.labels import FolderError

_ENDINGS = tuple(f"{name}{packed}" for name in (".pickle", ".pkl") for packed in ("", ".gz", ".zst"))
#: name, counter of what is right, counter of all, what it means.
_RATES = (
    ("addresses", "addresses_right", "addresses_total", "of allocations, new segments' bases given"),
    ("segment events", "segment_events_right", "segment_events_total", "kind and bytes, at their place"),
    ("final layouts", "final_layout_right", "final_layout_total", "every segment and block"),
    ("peak reserved", "peak_reserved_right", "traces", "to the byte"),
    ("blind sequence", "blind_sequence_right", "traces", "all segment events, no address given"),
    ("blind peak", "blind_peak_right", "traces", "to the byte"),
)


@dataclass(frozen=True)
class Miss:
    """One difference: in which file and device, about what, recorded and simulated."""

    file: str
    what: str
    expected: str
    got: str


@dataclass
class Tally:
    """Counts over all traces, a trace being one device's events; devices without events have none.

    `capacity_alone` are blind replays of a device that got full, in which its capacity alone said when.
    """

    files: int = 0
    traces: int = 0
    addresses_right: int = 0
    addresses_total: int = 0
    segment_events_right: int = 0
    segment_events_total: int = 0
    final_layout_right: int = 0
    final_layout_total: int = 0
    peak_reserved_right: int = 0
    blind_sequence_right: int = 0
    blind_peak_right: int = 0
    capacity_alone: int = 0
    seconds: float = 0.0
    events: int = 0
    crashes: int = 0
    misses: list[Miss] = field(default_factory=list)


def judge(folder: Path) -> Tally:
    """Replays what is in `folder`. Raises FolderError when there is no snapshot in it."""
    if not folder.is_dir():
        raise FolderError(f"There is no folder {folder}.")
    files = sorted(path for path in folder.iterdir() if path.name.endswith(_ENDINGS))
    if not files:
        raise FolderError(f"{folder} has no snapshots: it should hold files that end in .pickle or .pkl.")
    manifest = _manifest(folder)
    tally = Tally()
    begin = time.perf_counter()
    for path in files:
        tally.files += 1
        try:
            _judge_file(path, manifest.get(path.name, {}), tally)
        except OomphError as error:
            tally.misses.append(Miss(path.name, "reading", "a snapshot", str(error)))
        except Exception as error:  # noqa: BLE001 - a crash is what is being counted
            tally.crashes += 1
            tally.misses.append(Miss(path.name, "crash", "none", f"{type(error).__name__}: {error}"))
    tally.seconds = round(time.perf_counter() - begin, 3)
    return tally


def _manifest(folder: Path) -> Mapping[str, Mapping[str, Any]]:
    """What is known of each file, by its name; nothing where there is no manifest."""
    path = folder / "manifest.json"
    if not path.is_file():
        return {}
    try:
        return {entry["file"]: entry for entry in json.loads(path.read_text())}
    except (ValueError, KeyError, TypeError) as error:
        raise FolderError(f"{path} is not a list of objects with a file each: {error}.") from None


def _judge_file(path: Path, known: Mapping[str, Any], tally: Tally) -> None:
    snapshot = read(path)
    settings = allocator_settings(snapshot)
    recorded = [device for device in snapshot.devices if len(device.timeline)]
    events = sum(len(device.timeline) for device in recorded)
    tally.events += events
    if known.get("events", events) != events:
        tally.misses.append(Miss(path.name, "events", str(known["events"]), str(events)))
    reserved = known.get("peak_reserved_bytes", [])
    allocated = known.get("peak_allocated_bytes", [])
    for number, device in enumerate(recorded):
        judged = _Judged(path.name, device, settings, tally)
        judged.exact(
            reserved[number] if number < len(reserved) else None,
            allocated[number] if number < len(allocated) else None,
        )
        judged.blind()


class _Judged:
    """One trace."""

    def __init__(self, file: str, device: DeviceSnapshot, settings: AllocatorSettings, tally: Tally) -> None:
        self._file = file
        self._device = device
        self._settings = settings
        self._tally = tally
        tally.traces += 1

    def exact(self, known_reserved: int | None, known_allocated: int | None) -> None:
        tally = self._tally
        result = exact(self._device.segments, self._device.timeline, self._settings)
        tally.addresses_right += result.addresses_right
        tally.addresses_total += result.addresses_total
        tally.segment_events_right += result.segment_events_right
        tally.segment_events_total += result.segment_events_total
        tally.final_layout_right += result.layout_right
        tally.final_layout_total += 1
        expected = result.expected_peak_reserved_bytes if known_reserved is None else known_reserved
        right = result.peak_right and result.peak_reserved_bytes == expected
        tally.peak_reserved_right += right
        if not right:
            self._miss("peak reserved", expected, result.peak_reserved_bytes)
        if known_allocated not in (None, result.peak_allocated_bytes):
            self._miss("peak allocated", known_allocated, result.peak_allocated_bytes)
        if result.peak_requested_bytes != result.expected_peak_requested_bytes:
            self._miss("peak requested", result.expected_peak_requested_bytes, result.peak_requested_bytes)
        self._count_misses("exact", result)

    def blind(self) -> None:
        tally = self._tally
        result = blind(self._device.segments, self._device.timeline, self._settings)
        tally.blind_sequence_right += result.sequence_right
        tally.blind_peak_right += result.peak_right
        tally.capacity_alone += result.capacity_bytes is not None
        if not result.peak_right:
            self._miss("blind peak", result.expected_peak_reserved_bytes, result.peak_reserved_bytes)
        if not result.sequence_right:
            self._count_misses("blind", result)

    def _count_misses(self, how: str, result: Replay) -> None:
        for text in result.misses:
            self._miss(how, "as recorded", text)
        if result.problems:
            self._miss(f"{how}, frees of unknown blocks", 0, result.problems)

    def _miss(self, what: str, expected: object, got: object) -> None:
        where = f"device {self._device.index}: {what}"
        self._tally.misses.append(Miss(self._file, where, str(expected), str(got)))


def as_json(tally: Tally) -> str:
    """All counters and misses as one JSON object."""
    return json.dumps(asdict(tally), indent=1, ensure_ascii=False)


def as_text(tally: Tally, folder: str) -> str:
    """The rates, then every miss under its file."""
    rows = [
        f"{tally.files} snapshots in {folder}: {tally.traces} traces, {tally.events} events, {tally.seconds:.1f} s",
        "",
    ]
    for name, right, total, note in _RATES:
        of, all_of = getattr(tally, right), getattr(tally, total)
        percent = f"{100 * of / all_of:.2f} %" if all_of else "-"
        rows.append(f"  {name:<16}{of:>8} of {all_of:<8}{percent:>9}   {note}")
    rows += [
        "",
        f"  {'capacity alone':<16}{tally.capacity_alone:>8}   blind replays whose retries and OOMs followed from it",
    ]
    rows += [f"  {'crashes':<16}{tally.crashes:>8}", ""]
    if not tally.misses:
        rows.append("No misses.")
    for file, misses in groupby(tally.misses, key=lambda miss: miss.file):
        rows.append(file)
        rows.extend(f"    {each.what}: expected {each.expected}, got {each.got}" for each in misses)
    return "\n".join(rows)
