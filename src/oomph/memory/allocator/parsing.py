"""`PYTORCH_ALLOC_CONF` into settings: what PyTorch accepts and refuses, with its reasons.

Source: AcceleratorAllocatorConfig::parseArgs (c10/core/AllocatorConfig.cpp) and CUDAAllocatorConfig::parseArgs
(c10/cuda/CUDAAllocatorConfig.cpp). From 2.10 on the first reads the shared keys and skips the rest, then the second
reads CUDA's own and refuses what neither knows. Before, one function read all, and was stricter.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from oomph.memory.allocator.errors import SettingsError
from oomph.memory.allocator.sizes import DIVISION_BUCKETS, LARGE_SEGMENT_BYTES, UNLIMITED_BYTES
from oomph.memory.allocator.tokens import Tokens
from oomph.units import MIB

_SHARED_SINCE_2_10 = (2, 10)
_LEAST_LARGE_SEGMENT_MB = 10
_MOST_REGISTER_THREADS = 128

#: The first PyTorch version that knows each key, as far as sources and headers tell.
_SINCE = {
    "backend": (2, 0),
    "max_split_size_mb": (1, 10),
    "garbage_collection_threshold": (1, 12),
    "roundup_power2_divisions": (1, 12),
    "expandable_segments": (2, 1),
    "release_lock_on_cudamalloc": (2, 1),
    "release_lock_on_hipmalloc": (2, 1),
    "pinned_use_cuda_host_register": (2, 1),
    "pinned_use_hip_host_register": (2, 1),
    "pinned_num_register_threads": (2, 1),
    "max_non_split_rounding_mb": (2, 6),
    "pinned_use_background_threads": (2, 6),
    "pinned_reserve_segment_size_mb": (2, 9),
    "graph_capture_record_stream_reuse": (2, 9),
    "per_process_memory_fraction": (2, 10),
    "large_segment_size_mb": (2, 10),
    "throw_on_cudamalloc_oom": (2, 10),
    "pinned_max_round_threshold_mb": (2, 10),
    "pinned_max_cached_size_mb": (2, 10),
    "pinned_free_catch_all": (2, 10),
    "expandable_segments_handle_type": (2, 14),
    "expandable_segments_reserve": (2, 14),
    "expandable_segments_reserve_by_class": (2, 14),
}
_SHARED = (
    "large_segment_size_mb",
    "max_split_size_mb",
    "max_non_split_rounding_mb",
    "garbage_collection_threshold",
    "roundup_power2_divisions",
    "expandable_segments",
    "pinned_use_background_threads",
    "pinned_max_round_threshold_mb",
    "pinned_max_cached_size_mb",
)


def parse(text: str, torch: tuple[int, int]) -> dict[str, Any]:
    """Keyword arguments for `AllocatorSettings`. Raises SettingsError with PyTorch's reason."""
    if torch >= _SHARED_SINCE_2_10:
        shared = _Reader(text, torch, False)
        for place, word in enumerate(shared.tokens.items):
            if word == "large_segment_size_mb":
                shared.read(place, word)
        shared.run(lambda key: key in _SHARED, None)
        own = _Reader(text, torch, False)
        own.run(
            lambda key: key in _SINCE and key not in _SHARED,
            "Unrecognized key '{}' in CUDA allocator config.",
        )
        return {**shared.found, **own.found, "other": tuple(sorted({**shared.other, **own.other}.items()))}
    reader = _Reader(text, torch, True)
    reader.run(lambda key: key in _SINCE, "Unrecognized CachingAllocator option: {}")
    return {**reader.found, "other": tuple(sorted(reader.other.items()))}


class _Reader:
    """One pass over the text. `found` are arguments of `AllocatorSettings`, `other` what has no say in placement."""

    def __init__(self, text: str, torch: tuple[int, int], strict: bool) -> None:
        self.tokens = Tokens(text, strict)
        self.torch = torch
        self.strict = strict
        self.found: dict[str, Any] = {}
        self.other: dict[str, str] = {}

    def run(self, mine: Callable[[str], bool], unknown: str | None) -> None:
        place = 0
        while place < len(self.tokens):
            key = self.tokens.items[place]
            known = key in _SINCE and _SINCE[key] <= self.torch
            if known and mine(key):
                place = self.read(place, key)
            elif known or unknown is None:
                place = self.tokens.skip(place)
            else:
                raise SettingsError(unknown.format(key))
            place += 1
            if place < len(self.tokens):
                self.tokens.sign(place, ",")
                place += 1

    def read(self, place: int, key: str) -> int:
        """Reads the value of the key at `place`; the place where it ends."""
        if key == "expandable_segments_reserve_by_class":
            return self.tokens.skip(place)
        self.tokens.sign(place + 1, ":")
        place += 2
        if key == "roundup_power2_divisions":
            return self._divisions(place, key)
        if key in _PLAIN:
            name, how = _PLAIN[key]
            value = how(self, place, key)
            if name is None:
                self.other[key] = self.tokens.items[place]
            else:
                self.found[name] = value
            return place
        self.other[key] = self.tokens.value(place, key)
        return place

    def truth(self, place: int, key: str) -> bool:
        return self.tokens.truth(place, key)

    def whole(self, place: int, key: str) -> int:
        return self.tokens.whole(place, key)

    def megabytes(self, place: int, key: str) -> int:
        """At least a large segment (before 2.10: more than one)."""
        least = self.found.get("large_segment_size_bytes", LARGE_SEGMENT_BYTES) // MIB
        number = self.tokens.whole(place, key)
        if number < least or (self.strict and number == least):
            sign = ">" if self.strict else ">="
            raise SettingsError(f"CachingAllocator option {key} too small, must be {sign} {least}")
        return min(number * MIB, UNLIMITED_BYTES)

    def large_segment(self, place: int, key: str) -> int:
        number = self.tokens.whole(place, key)
        if number <= _LEAST_LARGE_SEGMENT_MB:
            raise SettingsError(f"CachingAllocator option {key} must be > {_LEAST_LARGE_SEGMENT_MB} MB")
        return min(number * MIB, UNLIMITED_BYTES)

    def threshold(self, place: int, key: str) -> float:
        number = self.tokens.real(place, key)
        if self.strict:
            if not number > 0:
                raise SettingsError("garbage_collect_threshold too small, set it 0.0~1.0")
            if not number < 1:
                raise SettingsError("garbage_collect_threshold too big, set it 0.0~1.0")
        elif not 0 < number < 1:
            raise SettingsError("garbage_collect_threshold is invalid, set it in (0.0, 1.0)")
        return number

    def fraction(self, place: int, key: str) -> float:
        number = self.tokens.real(place, key)
        if not 0 <= number <= 1:
            raise SettingsError(f"{key} is invalid, set it in [0.0, 1.0]")
        return number

    def backend(self, place: int, key: str) -> str:
        if self.strict and place >= len(self.tokens):
            raise SettingsError("Error parsing backend value")
        name = self.tokens.value(place, key)
        if name not in ("native", "cudaMallocAsync"):
            raise SettingsError("Unknown allocator backend, options are native and cudaMallocAsync")
        return name

    def threads(self, place: int, key: str) -> int:
        number = self.tokens.whole(place, key)
        got = "" if self.strict else f", got {number}"
        if not _power_of_two(number):
            raise SettingsError(f"Number of register threads has to be power of 2{got}")
        if number > _MOST_REGISTER_THREADS:
            raise SettingsError(f"Number of register threads should be less than or equal to 128{got}")
        return number

    def reserve(self, place: int, key: str) -> int:
        number = self.tokens.whole(place, key)
        if number == 0:
            raise SettingsError("Pinned reserve segment size has to be greater than 0")
        return number

    def _divisions(self, place: int, key: str) -> int:
        """One number for all sizes, or a list of `size in MB:divisions` with `>` for all larger ones."""
        tokens = self.tokens
        if tokens.value(place, key) != "[":
            number = tokens.whole(place, key)
            if not _power_of_two(number):
                raise SettingsError("For roundups, the divisions has to be power of 2")
            self.found[key] = (number,) * DIVISION_BUCKETS
            return place
        divisions = [0] * DIVISION_BUCKETS
        last = 0
        first = True
        place += 1
        while place < len(tokens) and tokens.items[place] != "]":
            interval = tokens.items[place]
            tokens.sign(place + 1, ":")
            number = tokens.whole(place + 2, key)
            if number != 0 and not _power_of_two(number):
                raise SettingsError(
                    "For roundups, the divisions has to be power of 2 or 0 to disable roundup"
                )
            if interval == ">":
                start = last if self.strict else last + 1
                divisions[start:] = [number] * (DIVISION_BUCKETS - start)
            else:
                last = self._interval(place, key)
                if first:
                    divisions[:last] = [number] * last
                    first = False
                divisions[last] = number
            place += 3
            if tokens.at(place) != "]":
                tokens.sign(place, ",")
                place += 1
        self.found[key] = tuple(divisions)
        return place

    def _interval(self, place: int, key: str) -> int:
        megabytes = self.tokens.whole(place, key)
        if not _power_of_two(megabytes):
            raise SettingsError("For roundups, the intervals have to be power of 2")
        return min(megabytes.bit_length() - 1, DIVISION_BUCKETS - 1)


def _power_of_two(number: int) -> bool:
    return number > 0 and number & (number - 1) == 0


#: Key -> the argument of `AllocatorSettings` (None: only checked) and how its value is read.
_PLAIN: dict[str, tuple[str | None, Callable[[_Reader, int, str], Any]]] = {
    "backend": ("backend", _Reader.backend),
    "large_segment_size_mb": ("large_segment_size_bytes", _Reader.large_segment),
    "max_split_size_mb": ("max_split_size_bytes", _Reader.megabytes),
    "max_non_split_rounding_mb": ("max_non_split_rounding_bytes", _Reader.megabytes),
    "garbage_collection_threshold": ("garbage_collection_threshold", _Reader.threshold),
    "expandable_segments": ("expandable_segments", _Reader.truth),
    "per_process_memory_fraction": ("fraction", _Reader.fraction),
    "throw_on_cudamalloc_oom": ("throw_on_cudamalloc_oom", _Reader.truth),
    "graph_capture_record_stream_reuse": (None, _Reader.truth),
    "release_lock_on_cudamalloc": (None, _Reader.truth),
    "release_lock_on_hipmalloc": (None, _Reader.truth),
    "pinned_use_cuda_host_register": (None, _Reader.truth),
    "pinned_use_hip_host_register": (None, _Reader.truth),
    "pinned_use_background_threads": (None, _Reader.truth),
    "pinned_free_catch_all": (None, _Reader.truth),
    "pinned_max_round_threshold_mb": (None, _Reader.whole),
    "pinned_max_cached_size_mb": (None, _Reader.whole),
    "pinned_num_register_threads": (None, _Reader.threads),
    "pinned_reserve_segment_size_mb": (None, _Reader.reserve),
}
