"""Sees, from one rank, that another has failed or stands still. It only looks into the run directory.

A rank that runs out of memory leaves a folder below oom/ before it dies. The others, which wait for it in a collective
and hang, note it then, with the phase that they are in and since when.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from oomph.evidence.run.model import OOM, Note
from oomph.evidence.run.now import decode_now, now_name
from oomph.phases import Phase

if TYPE_CHECKING:
    from oomph.evidence.run.model import Now

#: Seconds without a boundary of a phase after which a rank counts as standing still.
SILENT_SECONDS = 120.0
_PREFIX = "rank-"
#: The order of phases within a step.
_ORDER = {Phase.FORWARD: 1, Phase.BACKWARD: 2, Phase.OPTIMIZER: 3}


class Watchdog:
    """Looks at other ranks for one rank."""

    def __init__(
        self,
        directory: Path,
        rank: int,
        world_size: int,
        current: Callable[[], Now],
        note: Callable[[Note], None],
        silent_seconds: float = SILENT_SECONDS,
    ) -> None:
        self._directory = directory
        self._rank = rank
        self._world = world_size
        self._current = current
        self._note = note
        self._silent = silent_seconds
        # File systems count in whole seconds here and there, and their clocks are not this one's.
        self._since = time.time() - 2.0
        self._told: set[int] = set()
        self._told_silent: tuple[int, ...] = ()
        self._next_look = time.monotonic() + silent_seconds

    @property
    def interval(self) -> float:
        """Seconds between looks: a thousand ranks must not ask a shared folder for its names all the time."""
        return max(0.5, self._world / 128)

    def poll(self) -> None:
        """One look. Raises OSError only for what is not plainly "not there"."""
        if self._world > 1:
            self._failed()
            if self._rank == 0 and time.monotonic() >= self._next_look:
                self._next_look = time.monotonic() + max(self._silent / 4, 1.0)
                self._standing()

    def _failed(self) -> None:
        try:
            names = os.listdir(self._directory / OOM)  # noqa: PTH208 - names, not paths
        except (FileNotFoundError, NotADirectoryError):
            return
        for name in names:
            number = name.removeprefix(_PREFIX)
            if not number.isascii() or not number.isdigit():
                continue
            rank = int(number)
            if rank == self._rank or rank in self._told or not self._fresh(name):
                continue
            self._told.add(rank)
            now = self._current()
            clock = time.monotonic()
            text = (
                f"A request of rank {rank} failed for lack of memory. This rank is in {describe(now)} "
                f"since {max(clock - now.clock, 0):.1f} s"
            )
            self._note(
                Note(
                    "watchdog.failed",
                    text,
                    time.time(),
                    clock,
                    phase=now.phase,
                    step=now.step,
                    about=rank,
                )
            )

    def _fresh(self, name: str) -> bool:
        """Whether it failed since this process began, and not in an earlier attempt."""
        try:
            return (self._directory / OOM / name).stat().st_mtime >= self._since
        except OSError:
            return False

    def _standing(self) -> None:
        seen = {rank: found for rank in range(self._world) if (found := self._of(rank)) is not None}
        still = {rank: one for rank, one in seen.items() if one[1] >= self._silent}
        if not still:
            self._told_silent = ()
            return
        least = min(_place(one[0]) for one in still.values())
        behind = tuple(rank for rank, one in still.items() if _place(one[0]) == least)
        if len(still) == len(seen) and len(behind) == len(seen):
            behind = tuple(still)
        if behind == self._told_silent:
            return
        self._told_silent = behind
        first = still[behind[0]]
        whom = f"Rank {behind[0]}" if len(behind) == 1 else f"Ranks {_some(behind)}"
        others = "the others go on" if len(still) < len(seen) else "nobody does"
        if len(behind) == len(seen):
            others = "all ranks stand still"
        now = self._current()
        self._note(
            Note(
                "watchdog.silent",
                f"{whom} began or ended no phase for {first[1]:.0f} s, in {describe(first[0])}; {others}",
                time.time(),
                time.monotonic(),
                phase=now.phase,
                step=now.step,
                about=behind[0] if len(behind) == 1 else None,
            )
        )

    def _of(self, rank: int) -> tuple[Now, float] | None:
        path = self._directory / now_name(rank)
        try:
            now = decode_now(path.read_bytes())
            age = time.time() - path.stat().st_mtime
        except OSError:
            return None
        return None if now is None else (now, age)


def _place(now: Now) -> tuple[int, int]:
    return now.step, _ORDER.get(now.phase, 4 if now.over else 0)


def describe(now: Now) -> str:
    """In words: "backward of step 12", "load"."""
    phase = f"after {now.phase}" if now.over else str(now.phase)
    return phase if now.step < 0 else f"{phase} of step {now.step}"


def _some(ranks: Sequence[int]) -> str:
    shown = ", ".join(str(rank) for rank in ranks[:8])
    return shown if len(ranks) <= 8 else f"{shown} and {len(ranks) - 8} more"
