"""CUDA_VISIBLE_DEVICES as CUDA reads it, with what is odd about it.

Source: the CUDA programming guide, "CUDA Environment Variables" (the first invalid entry ends the list; UUIDs may be
cut), and torch/cuda/__init__.py, _parse_visible_devices (a number is read like C's strtoul, so "2ampere" and "2-4" are
2; a device named twice leaves none; the first entry decides whether the others are UUIDs).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

_NUMBER = re.compile(r"\s*([+-]?\d{1,9})")


@dataclass(frozen=True)
class Reading:
    """`seen` are the devices of a process, in its order: the driver's indices, or UUIDs as written. `ended_by` is the
    entry at which CUDA stops, with `why`: "none" (empty or negative), "word", "beyond", "unknown", "mixed",
    "ambiguous". `twice` is the entry that is named again, which leaves no device. `cut` are entries of which only the
    leading number is read."""

    entries: tuple[str, ...] = ()
    seen: tuple[int | str, ...] = ()
    ended_by: str = ""
    why: str = ""
    twice: str = ""
    cut: tuple[str, ...] = ()


def read_devices(text: str, count: int | None = None, uuids: Sequence[str] = ()) -> Reading:
    """Reads the value. `count` is how many cards there are, None where that is not known; `uuids` those of all cards,
    empty where they are not known."""
    entries = tuple(word.strip() for word in text.split(","))
    if entries[0].startswith(("GPU-", "MIG-")):
        return _by_uuid(entries, uuids)
    seen: list[int | str] = []
    cut: list[str] = []
    for word in entries:
        match = _NUMBER.match(word)
        if match is None or int(match[1]) < 0:
            why = (
                "none"
                if word == "" or match is not None
                else "mixed"
                if word.startswith(("GPU-", "MIG-"))
                else "word"
            )
            return Reading(entries, tuple(seen), word, why, cut=tuple(cut))
        index = int(match[1])
        if count is not None and index >= count:
            return Reading(entries, tuple(seen), word, "beyond", cut=tuple(cut))
        if match.end() != len(word):
            cut.append(word)
        if index in seen:
            return Reading(entries, (), twice=word, cut=tuple(cut))
        seen.append(index)
    return Reading(entries, tuple(seen), cut=tuple(cut))


def _by_uuid(entries: tuple[str, ...], uuids: Sequence[str]) -> Reading:
    prefix = entries[0][:4]
    known = [one for one in uuids if one.startswith(prefix)]
    seen: list[int | str] = []
    for word in entries:
        if not word.startswith(prefix):
            return Reading(entries, tuple(seen), word, "none" if word == "" else "mixed")
        found = [one for one in known if one.startswith(word)]
        if known and len(found) != 1:
            return Reading(entries, tuple(seen), word, "ambiguous" if found else "unknown")
        name = found[0] if found else word
        if name in seen:
            return Reading(entries, (), twice=word)
        seen.append(name)
    return Reading(entries, tuple(seen))
