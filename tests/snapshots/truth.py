"""What a synthetic snapshot is known to hold, because the generator built it so."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.snapshots.frames import Line

FULL = "full"
FRAGMENTED = "fragmented"
CAPPED = "capped"
OTHER_POOL = "other pool or stream holds it"
OUTSIDE_GREW = "outside grew"


@dataclass(frozen=True)
class Failed:
    """A request that failed, as the generator's own sums have it. All sizes are bytes.

    `holes` are the free blocks of the request's own pool and stream, largest first; `other_holes` all others.
    `line` is the innermost line of the user's code; `categories` the block bytes in use by category; `pins` the blocks
    in use right beside the own holes, by line.
    """

    position: int
    request_bytes: int
    segment_bytes: int
    pool: tuple[int, int]
    stream: int
    small: bool
    holes: tuple[int, ...]
    other_holes: tuple[int, ...]
    free_bytes: int
    reserved_bytes: int
    allocated_bytes: int
    line: Line | None
    phase: str
    step: int | None
    categories: dict[str, int]
    pins: dict[Line | None, int]

    @property
    def cached_own_bytes(self) -> int:
        return sum(self.holes)

    @property
    def cached_bytes(self) -> int:
        return sum(self.holes) + sum(self.other_holes)

    @property
    def hole_bytes(self) -> int:
        return max(self.holes, default=0)

    @property
    def available_bytes(self) -> int:
        return self.reserved_bytes + self.free_bytes

    @property
    def short_by_bytes(self) -> int:
        """What would be missing if all that is free, cached or not, were one piece."""
        return max(0, self.request_bytes - self.cached_bytes - self.free_bytes)


@dataclass
class Truth:
    """The answers. What a scenario does not decide stays None or empty.

    `pins` are the lines whose blocks keep holes apart, with their number. `leaks`: block bytes per step by line.
    `fails_at_step`: the step (from 0) at which the script ran, or would run, out of memory.
    """

    verdict: str | None = None
    failed: Failed | None = None
    caught: bool = False
    pins: dict[Line, int] = field(default_factory=dict)
    cap_bytes: int | None = None
    outside_growth_bytes: int | None = None
    private_bytes: int | None = None
    leaks: dict[Line | None, int] = field(default_factory=dict)
    leak_from_step: int = 0
    step_positions: list[int] = field(default_factory=list)
    fails_at_step: int | None = None
    first_step_bytes: int | None = None
    longest_step: int | None = None
    retries: list[int] = field(default_factory=list)
    categories: dict[str, int] = field(default_factory=dict)
    peak_allocated_bytes: int = 0
    peak_reserved_bytes: int = 0


def judged(failed: Failed) -> str | None:
    """The verdict where the sums alone decide it: all that is free is too little (full), or the own pool's holes are
    enough together and none is alone (fragmented). None for what lies between, or has another reason."""
    if failed.short_by_bytes:
        return FULL
    if failed.hole_bytes < failed.request_bytes <= failed.cached_own_bytes:
        return FRAGMENTED
    return None
