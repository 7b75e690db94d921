"""Which format a snapshot has. It carries no version: the keys that are there say which PyTorch can have written it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Era:
    """A format. `torch` is the first version that writes it (as far as known), `key` what told it from the one before.

    Source: torch/cuda/memory.py and torch/csrc/cuda/Module.cpp of 2.0, 2.1, 2.4, 2.9, 2.13; the versions between are
    bracketed by real files.
    """

    name: str
    torch: tuple[int, int]
    key: str


TORCH_2_0 = Era("2.0", (2, 0), "segments")
TORCH_2_1 = Era("2.1", (2, 1), "segment_pool_id")
TORCH_2_3 = Era("2.3", (2, 3), "time_us")
TORCH_2_4 = Era("2.4", (2, 4), "allocator_settings")
TORCH_2_6 = Era("2.6", (2, 6), "external_annotations")
TORCH_2_8 = Era("2.8", (2, 8), "compile_context")
TORCH_2_9 = Era("2.9", (2, 9), "graph_capture_record_stream_reuse")
TORCH_2_10 = Era("2.10", (2, 10), "user_metadata")
TORCH_2_13 = Era("2.13", (2, 13), "pool_id")
TORCH_2_14 = Era("2.14", (2, 14), "host_segments")


def detect(top: Mapping[str, object], events: Sequence[Mapping[str, object]]) -> Era:
    """The newest format of which a key is there. `events` are one or more events of the file, if it has any."""
    segments = top.get("segments")
    settings = top.get("allocator_settings")
    segment = segments[0] if isinstance(segments, list) and segments else None
    seen = {key for event in events for key in event}
    seen.update(top)
    seen.update(settings if isinstance(settings, dict) else ())
    seen.update(segment if isinstance(segment, dict) else ())
    if "host_traces" in seen or any(event.get("action") == "annotate" for event in events):
        seen.add(TORCH_2_14.key)
    for era in (TORCH_2_14, TORCH_2_13, TORCH_2_10, TORCH_2_9, TORCH_2_8, TORCH_2_6, TORCH_2_4, TORCH_2_3):
        if era.key in seen:
            return era
    return TORCH_2_1 if segment is None or TORCH_2_1.key in seen else TORCH_2_0
