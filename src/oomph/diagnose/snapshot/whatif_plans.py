"""Which settings to try, and what each of them changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from oomph.errors import UsageError
from oomph.memory.allocator.errors import SettingsError
from oomph.memory.allocator.parsing import parse
from oomph.memory.allocator.settings import AllocatorSettings
from oomph.memory.allocator.sizes import UNLIMITED_BYTES
from oomph.units import MIB, format_bytes, size_given

ALL = "all"
EMPTY_CACHE = "empty_cache"
#: All settings of the job taken away.
DEFAULTS = "defaults"
_CAPACITY = "capacity:"
#: Worth trying for what breaks up memory of many sizes; the smallest first splits least and costs most.
_SPLIT_MB = (512, 256, 128, 64, 32)
_MOST_SPLITS = 3
#: Lower is tried first by a user: one word, no measuring; then what needs measuring; then code.
_RANKS = {
    "expandable_segments": 0,
    "max_split_size_mb": 1,
    "large_segment_size_mb": 2,
    "roundup_power2_divisions": 3,
    "max_non_split_rounding_mb": 4,
    "garbage_collection_threshold": 5,
}
_LAST_RANK = 6
_EMPTY_RANK = 7

_TEXT = {
    "max_split_size_mb": "blocks of this size and larger are kept whole, for requests of about their size",
    "garbage_collection_threshold": "close to a limit, cached memory that was unused for long is given back first",
    "roundup_power2_divisions": "sizes are rounded up to parts of powers of two, so that more of them are equal",
    "large_segment_size_mb": "requests of 1 to 10 MiB share segments of this size",
    "max_non_split_rounding_mb": "how much larger a whole block may be than the request that takes it",
    "per_process_memory_fraction": "PyTorch reserves no more than this share of the device",
}

_EXPANDABLE = "memory is mapped page by page into ranges of addresses that grow"


@dataclass(frozen=True)
class Plan:
    """One trial to run. `rank`: the lower, the sooner a user would try it; None: nothing that a user can set.

    `capacity_bytes`: another device instead of the job's. `empties`: the cache is emptied at phase or step ends.
    `collects`: garbage collection is on and needs a limit.
    """

    setting: str
    change: str
    settings: AllocatorSettings
    rank: int | None = None
    capacity_bytes: int | None = None
    empties: bool = False
    collects: bool = False
    caveats: tuple[str, ...] = ()


def plans(
    asked: Sequence[str], settings: AllocatorSettings, largest_bytes: int, boundaries: Sequence[int]
) -> list[Plan]:
    """The trials for what was asked, each once. `largest_bytes`: the largest segment that a trial can hold.

    Raises UsageError for what is no setting (SettingsError with PyTorch's reason where PyTorch refuses it).
    """
    found: list[Plan] = []
    for text in asked:
        text = text.strip()
        if text == ALL:
            found += _all(settings, largest_bytes, boundaries)
        else:
            found.append(_one(text, settings, boundaries))
    return list({plan.setting: plan for plan in reversed(found)}.values())[::-1]


def _all(settings: AllocatorSettings, largest_bytes: int, boundaries: Sequence[int]) -> list[Plan]:
    texts = [f"expandable_segments:{not settings.expandable_segments}"]
    splits = [number for number in _SPLIT_MB if number * MIB <= largest_bytes]
    texts += [f"max_split_size_mb:{number}" for number in splits[:_MOST_SPLITS]]
    if not settings.garbage_collection_threshold:
        texts.append("garbage_collection_threshold:0.8")
    texts += ["roundup_power2_divisions:4", "large_segment_size_mb:64"]
    found = []
    for text in texts:
        try:
            plan = _one(text, settings, boundaries)
        except SettingsError:  # this version of PyTorch does not know it
            continue
        if plan.settings != settings:
            found.append(plan)
    if replace(settings, other=()) != AllocatorSettings(torch=settings.torch):
        plain = _one(DEFAULTS, settings, boundaries)
        if all(plan.settings != plain.settings for plan in found):
            found.append(plain)
    if boundaries:
        found.append(_one(EMPTY_CACHE, settings, boundaries))
    return found


def _one(text: str, settings: AllocatorSettings, boundaries: Sequence[int]) -> Plan:
    if text == EMPTY_CACHE:
        change = "torch.cuda.empty_cache() at the end of each phase or step"
        missing = () if boundaries else ("No phase or step was found in this trace, so nothing is changed.",)
        return Plan(text, change, settings, _EMPTY_RANK, empties=True, caveats=missing)
    if text == DEFAULTS:
        plain = AllocatorSettings(torch=settings.torch)
        return Plan(text, "none of the allocator settings that the job had", plain, _LAST_RANK)
    if text.startswith(_CAPACITY):
        return _other_device(text, settings)
    if not text:
        raise UsageError("--what-if needs a setting, such as expandable_segments:True, or all.")
    return _layered(text, settings)


def _other_device(text: str, settings: AllocatorSettings) -> Plan:
    size = size_given(text[len(_CAPACITY) :])
    if size is None:
        raise UsageError(f"--what-if {text}: write a size, such as capacity:40GiB.")
    change = f"a device that gives PyTorch {format_bytes(size)} in all"
    note = "A card gives PyTorch less than its size: the CUDA context and other libraries take their part."
    return Plan(text, change, settings, capacity_bytes=size, caveats=(note,))


def _layered(text: str, settings: AllocatorSettings) -> Plan:
    """PyTorch's own text, over what the job had set."""
    try:
        found = parse(text, settings.torch)
    except SettingsError as error:
        version = ".".join(map(str, settings.torch))
        raise SettingsError(
            f"--what-if {text[:60]}: PyTorch {version}, whose format this snapshot has, refuses it: {error}"
        ) from error
    other = dict(found.pop("other", ()))
    if found.get("backend", "native") != "native":
        raise UsageError(f"--what-if {text}: only PyTorch's native allocator is simulated.")
    found.pop("backend", None)
    if found.get("max_split_size_bytes") == UNLIMITED_BYTES:
        found["max_split_size_bytes"] = None
    changed = replace(settings, **found)
    caveats = []
    if changed == settings and found:
        caveats.append("The job had this already.")
    elif not found:
        caveats.append("This does not decide where blocks go, so nothing is changed.")
    if found.get("fraction") is not None:
        caveats.append("The share is counted of what PyTorch could have had; the device's size is not known.")
    keys = [key for key in _RANKS if _argument(key) in found]
    return Plan(
        text,
        _words(found) or ("nothing that decides where blocks go" if other else "nothing"),
        changed,
        min((_RANKS[key] for key in keys), default=_LAST_RANK),
        collects="garbage_collection_threshold" in found and changed.fraction is None,
        caveats=tuple(caveats),
    )


def _argument(key: str) -> str:
    return _ARGUMENTS.get(key, key)


_ARGUMENTS = {
    "max_split_size_mb": "max_split_size_bytes",
    "large_segment_size_mb": "large_segment_size_bytes",
    "max_non_split_rounding_mb": "max_non_split_rounding_bytes",
    "per_process_memory_fraction": "fraction",
}


def _words(found: dict[str, Any]) -> str:
    """What the setting changes, for people."""
    words = [_TEXT[key] for key in _TEXT if _argument(key) in found]
    if "expandable_segments" in found:
        grows = found["expandable_segments"]
        words.insert(0, _EXPANDABLE if grows else "memory comes in segments of fixed size")
    return "; ".join(words)
