"""The allocator's settings as a snapshot holds them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from oomph.errors import OomphError
from oomph.evidence.snapshot.model import Snapshot
from oomph.memory.allocator.settings import AllocatorSettings
from oomph.memory.allocator.sizes import DIVISION_BUCKETS


def allocator_settings(snapshot: Snapshot) -> AllocatorSettings:
    """What PYTORCH_CUDA_ALLOC_CONF said, corrected by the values that the file says were in effect.

    Both matter: the text alone holds max_non_split_rounding_mb and large_segment_size_mb, the values show what was
    changed by code. Before PyTorch 2.4 a snapshot holds neither: expandable segments show themselves by their
    segments, the rest is taken as PyTorch's default. The fraction limit is in no snapshot.
    """
    conf = snapshot.conf
    settings = _parsed(snapshot)
    expandable = conf.get("expandable_segments")
    if type(expandable) is not bool:
        expandable = settings.expandable_segments or any(
            segment.expandable for device in snapshot.devices for segment in device.segments
        )
    settings = replace(settings, expandable_segments=expandable)
    split = conf.get("max_split_size")
    if type(split) is int:
        settings = replace(settings, max_split_size_bytes=split if 0 < split < 1 << 60 else None)
    threshold = conf.get("garbage_collection_threshold")
    if type(threshold) is float and 0.0 <= threshold <= 1.0:
        settings = replace(settings, garbage_collection_threshold=threshold)
    divisions = conf.get("roundup_power2_divisions")
    if isinstance(divisions, dict):
        settings = replace(settings, roundup_power2_divisions=_divisions(divisions))
    return settings


def _parsed(snapshot: Snapshot) -> AllocatorSettings:
    """The text's settings; the defaults when PyTorch would refuse it (then the file's text was not what it used). A
    trace may speak for another version than the one whose format it has."""
    torch = snapshot.era.torch
    if snapshot.traced is not None:
        torch = snapshot.traced.torch_version or torch
    try:
        return AllocatorSettings.parse(snapshot.conf_text or "", torch=torch)
    except OomphError:
        return AllocatorSettings(torch=torch)


def _divisions(raw: Mapping[object, object]) -> tuple[int, ...]:
    """{"1": 0, "2": 0, ... "32768": 0}, by MiB, as 16 numbers; none when all are off."""
    values = []
    for bucket in range(DIVISION_BUCKETS):
        value = raw.get(str(1 << bucket))
        values.append(value if type(value) is int and 0 <= value <= 1 << 20 else 0)
    return tuple(values) if any(values) else ()
