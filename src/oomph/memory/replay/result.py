"""What a replay gave, beside what was recorded."""

from __future__ import annotations

from dataclasses import dataclass, field

#: (kind, bytes) of a segment event; kind is a `timeline.Kind`.
SegmentEvent = tuple[int, int]


@dataclass
class Replay:
    """One device's trace, fed to the simulated allocator. All sizes are bytes.

    addresses_right of addresses_total: allocations that got the recorded address. expected_events and events: what
    was asked of the driver, in order, recorded and simulated (OOM included). layout_right: every segment and block at
    the end is as in the snapshot. The peaks: as the trace's own sums say, and as simulated. `ooms` are positions of
    events at which the simulation had no memory. `problems` counts events that made no sense to the simulation (a
    free of a block that it does not have). `unsure` counts blocks of the start whose exact end is not known, which
    can lead to differences that are nobody's fault. `misses` are the first differences, as sentences.
    """

    events_total: int
    capacity_bytes: int | None = None
    addresses_right: int = 0
    addresses_total: int = 0
    expected_events: list[SegmentEvent] = field(default_factory=list)
    events: list[SegmentEvent] = field(default_factory=list)
    layout_right: bool = False
    expected_peak_reserved_bytes: int = 0
    peak_reserved_bytes: int = 0
    expected_peak_requested_bytes: int = 0
    peak_requested_bytes: int = 0
    peak_allocated_bytes: int = 0
    retries: int = 0
    ooms: list[int] = field(default_factory=list)
    problems: int = 0
    unsure: int = 0
    misses: list[str] = field(default_factory=list)

    @property
    def segment_events_total(self) -> int:
        return len(self.expected_events)

    @property
    def segment_events_right(self) -> int:
        """Recorded segment events that the simulation has at the same place of its own sequence."""
        return sum(
            recorded == simulated
            for recorded, simulated in zip(self.expected_events, self.events, strict=False)
        )

    @property
    def sequence_right(self) -> bool:
        """Exactly the recorded segment events, in the recorded order, and none besides."""
        return self.expected_events == self.events

    @property
    def peak_right(self) -> bool:
        return self.peak_reserved_bytes == self.expected_peak_reserved_bytes

    @property
    def exact(self) -> bool:
        """Nothing differs: addresses, segment events, layout, peaks."""
        return (
            self.addresses_right == self.addresses_total
            and self.sequence_right
            and self.layout_right
            and self.peak_right
            and self.peak_requested_bytes == self.expected_peak_requested_bytes
            and not self.problems
        )
