"""Memory that outlives its step, told apart from what only the first step or the longest batch needs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from oomph.diagnose.model import Certainty
from oomph.diagnose.snapshot.model import Growth, Leak
from oomph.diagnose.snapshot.moments import fatal_oom
from oomph.diagnose.snapshot.places import place_of
from oomph.memory.categories import CATEGORIES
from oomph.units import format_bytes

if TYPE_CHECKING:
    from oomph.diagnose.snapshot.analysis import Analysis

#: Steps in which a stack has to leave something behind: what happens twice may be two warm-ups.
MIN_STEPS = 3
#: And it has to do so in so many of the steps since it began (logging every other step would be half).
MIN_SHARE = 0.75
#: A step's peak that is so much above the usual one is another batch, not noise.
LONGER = 1.1
#: Growth below this many bytes per step is bookkeeping (loss values kept on purpose) and named, but as possible only.
SMALL_BYTES = 4096


@dataclass(frozen=True)
class _Marks:
    """Where the steps are: the first event of each, and the last event that counts. `judged` steps can have left
    something behind: a step has to pass after them, and the one in which a request failed is not whole."""

    firsts: NDArray[np.int64]
    end: int
    judged: int


def growth_of(analysis: Analysis, available_bytes: int | None) -> Growth:
    """What grows. `available_bytes` is what PyTorch can have in all, None where it is not known."""
    fatal = fatal_oom(analysis.timeline)
    end = len(analysis.timeline) - 1 if fatal is None else fatal
    firsts = np.array([one for one in analysis.steps.first_positions if one <= end], np.int64)
    steps = len(firsts)
    judged = steps - (1 if fatal is None else 2)
    if judged < MIN_STEPS:
        told = "no training steps were recognised"
        if steps:
            told = f"the trace has {steps} {'step' if steps == 1 else 'steps'}, too few"
        return Growth(f"Growth from step to step cannot be told: {told}.", steps)
    marks = _Marks(firsts, end, judged)
    rows, born_in = _survivors(analysis, marks)
    leaks = _leaks(analysis, rows, born_in, judged - 1)
    peaks = _peaks(analysis, marks)
    first_bytes = _first_step(analysis, rows, born_in, leaks)
    per_step = sum(leak.bytes_per_step for leak in leaks)
    failed = fatal is not None and bool(leaks)
    fails = steps - 1 if failed else _fails_at(peaks, per_step, available_bytes)
    longest, usual = _longest(peaks, leaks)
    found = Growth(
        says="",
        steps=steps,
        leaks=leaks,
        bytes_per_step=per_step,
        fails_at_step=fails,
        available_bytes=available_bytes,
        first_step_bytes=first_bytes,
        longest_step=longest,
        longest_peak_bytes=int(peaks[longest]) if longest is not None else None,
        usual_peak_bytes=usual,
    )
    return replace(found, says=_says(found, failed=fatal is not None))


def _survivors(analysis: Analysis, marks: _Marks) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
    """Blocks born in one of the judged steps and alive at the end: rows, and the step of each."""
    lives = analysis.lifetimes
    until = marks.firsts[marks.judged]
    rows = np.flatnonzero((lives.born >= marks.firsts[0]) & (lives.born < until) & (lives.freed > marks.end))
    return rows, np.searchsorted(marks.firsts, lives.born[rows], side="right") - 1


def _leaks(
    analysis: Analysis, rows: NDArray[np.intp], born_in: NDArray[np.int64], last: int
) -> tuple[Leak, ...]:
    """Stacks that leave blocks behind in step after step, up to `last`, the last step that can be judged."""
    found = []
    stacks = _same(analysis, rows)
    for stack in np.unique(stacks).tolist():
        mine = stacks == stack
        in_steps = born_in[mine]
        which = np.unique(in_steps)
        # What only the first step left (optimizer state, workspaces) does not begin a series.
        if len(which) > 1 and which[0] == 0 and which[1] > 1:
            which = which[1:]
        since = int(which[0])
        if len(which) < MIN_STEPS or len(which) < MIN_SHARE * (last - since + 1) or int(which[-1]) < last - 1:
            continue
        found.append(_leak(analysis, rows[mine], in_steps, which, last - since + 1))
    return tuple(sorted(found, key=lambda leak: -leak.bytes_per_step))


def _same(analysis: Analysis, rows: NDArray[np.intp]) -> NDArray[np.int64]:
    """A number for each row, the same for blocks that are taken for the same thing: by their stack, and where none
    was recorded by their size (as negative numbers)."""
    stacks = analysis.block_stack[rows].astype(np.int64)
    return np.where(stacks >= 0, stacks, -1 - analysis.lifetimes.requested_bytes[rows])


def _leak(
    analysis: Analysis,
    rows: NDArray[np.intp],
    in_steps: NDArray[np.int64],
    which: NDArray[np.int64],
    spanned: int,
) -> Leak:
    sizes = analysis.lifetimes.size_bytes[rows]
    since = int(which[0])
    counted = in_steps >= since
    per_step = np.bincount((in_steps[counted] - since), weights=sizes[counted], minlength=spanned)
    bytes_per_step = int(per_step.sum()) // spanned
    category = analysis.block_category[rows]
    numbers, counts = np.unique(category, return_counts=True)
    stack = int(analysis.block_stack[rows[0]])
    frames = analysis.frames(stack)
    steady = len(which) == spanned and stack >= 0
    sure = steady and len(which) >= MIN_STEPS + 2 and bytes_per_step >= SMALL_BYTES
    return Leak(
        frames=frames,
        place=place_of(frames),
        category=CATEGORIES[int(numbers[np.argmax(counts)])],
        bytes_per_step=bytes_per_step,
        blocks_per_step=float(counted.sum()) / spanned,
        steps=len(which),
        total_bytes=int(sizes.sum()),
        first_step=since,
        certainty=Certainty.CERTAIN if sure else Certainty.LIKELY if steady else Certainty.POSSIBLE,
    )


def _first_step(
    analysis: Analysis, rows: NDArray[np.intp], born_in: NDArray[np.int64], leaks: tuple[Leak, ...]
) -> int:
    """What the first step left for good, apart from what leaks."""
    sizes = analysis.lifetimes.size_bytes[rows]
    leaked = sum(leak.bytes_per_step for leak in leaks if leak.first_step == 0)
    return max(0, int(sizes[born_in == 0].sum()) - leaked)


def _peaks(analysis: Analysis, marks: _Marks) -> NDArray[np.int64]:
    """The most that was allocated in each step."""
    return np.maximum.reduceat(analysis.allocated_bytes[: marks.end + 1], marks.firsts)


def _fails_at(peaks: NDArray[np.int64], per_step: int, available: int | None) -> int | None:
    """The step whose peak will not fit any more, from the last whole step's peak."""
    if not per_step or available is None:
        return None
    last = len(peaks) - 2
    room = available - int(peaks[last])
    return last + max(1, -(-room // per_step)) if room > 0 else last + 1


def _longest(peaks: NDArray[np.int64], leaks: tuple[Leak, ...]) -> tuple[int | None, int | None]:
    """The step with the highest peak, where it stands out after growth is taken away; and the usual peak."""
    steps, level = np.arange(len(peaks)), peaks.copy()
    for leak in leaks:
        level -= np.maximum(0, steps - leak.first_step) * leak.bytes_per_step
    usual = int(np.median(level))
    top = int(np.argmax(level))
    return (top if level[top] > LONGER * usual else None), usual


def _says(growth: Growth, *, failed: bool) -> str:
    parts = []
    if growth.leaks:
        where = growth.leaks[0].place
        name = f", most of it from {where.function} ({where.file}:{where.line})" if where is not None else ""
        parts.append(
            f"Memory grows by {format_bytes(growth.bytes_per_step)} per step{name}: blocks that were allocated "
            "in one step after another and never freed."
        )
        if growth.fails_at_step is not None:
            parts.append(
                f"Step {growth.fails_at_step} of the trace did not fit."
                if failed
                else f"At this rate step {growth.fails_at_step} of the trace will not fit."
            )
    else:
        parts.append(f"Nothing grows over the {growth.steps} steps of the trace.")
    if growth.longest_step is not None:
        first = growth.longest_step == 0
        which = "The first step" if first else f"Step {growth.longest_step}"
        parts.append(
            f"{which} has a peak of {format_bytes(growth.longest_peak_bytes or 0)} where "
            f"{format_bytes(growth.usual_peak_bytes or 0)} is usual: "
            f"{'warm-up or a longer batch' if first else 'a longer batch'}, not growth."
        )
    if growth.first_step_bytes and not growth.leaks:
        parts.append(
            f"The first step left {format_bytes(growth.first_step_bytes)} for good (optimizer state, "
            "workspaces); later steps did not."
        )
    return " ".join(parts)
