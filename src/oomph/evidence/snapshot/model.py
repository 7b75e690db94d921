"""What a memory snapshot says, checked and in oomph's own types."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from oomph.evidence.snapshot.formats import Era
from oomph.evidence.snapshot.traced import Traced
from oomph.memory.allocator.layout import SegmentState
from oomph.memory.timeline import Timeline


@dataclass(frozen=True)
class DeviceSnapshot:
    """One device: its segments when the snapshot was taken, and the events that led there.

    block_stacks: stack number (in the timeline's `stacks`) by address, of blocks whose allocation was recorded.
    """

    index: int
    segments: tuple[SegmentState, ...]
    timeline: Timeline
    block_stacks: Mapping[int, int] = field(default_factory=dict)

    @property
    def reserved_bytes(self) -> int:
        return sum(segment.size for segment in self.segments)


@dataclass(frozen=True)
class Annotation:
    """The begin or end ("START", "END") of a range that the user or PyTorch named (record_function)."""

    name: str
    stage: str
    device: int
    time_us: int


@dataclass(frozen=True)
class Snapshot:
    """A snapshot file. `devices` has one entry per device index, unused ones included.

    `conf_text` is the PYTORCH_CUDA_ALLOC_CONF of the process, None where the file does not hold it. `conf` holds the
    file's other allocator settings as they were in effect. `notes` are sentences about what was passed over. `traced`
    is what `oomph trace` wrote beside it; None for a snapshot of a real run.
    """

    source: str
    era: Era
    devices: tuple[DeviceSnapshot, ...]
    conf_text: str | None = None
    conf: Mapping[str, object] = field(default_factory=dict)
    annotations: tuple[Annotation, ...] = ()
    notes: tuple[str, ...] = ()
    traced: Traced | None = None

    @property
    def has_history(self) -> bool:
        """Whether any device has events."""
        return any(len(device.timeline) for device in self.devices)
