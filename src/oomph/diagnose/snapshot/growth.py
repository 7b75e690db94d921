"""Memory that outlives its step, told apart from what only the first step or the longest batch needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from oomph.diagnose.model import Certainty
from oomph.diagnose.snapshot.finished import steps_end
from oomph.diagnose.snapshot.growth_says import says
from oomph.diagnose.snapshot.model import Growth, Leak, Steps
from oomph.diagnose.snapshot.moments import fatal_oom
from oomph.diagnose.snapshot.places import place_of
from oomph.memory.categories import CATEGORIES, Category
from oomph.phases import Phase

if TYPE_CHECKING:
    from oomph.diagnose.snapshot.analysis import Analysis

#: Steps in which a stack has to leave something behind: what happens twice may be two warm-ups.
MIN_STEPS = 3
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
    certainty: Certainty  # of the steps


def growth_of(analysis: Analysis, available_bytes: int | None) -> Growth:
    """What grows. `available_bytes` is what PyTorch can have in all, None where it is not known.

    A trace without training steps (a loop of inference, code whose names tell nothing) may still repeat: then
    repetitions stand for steps, if what is found is more than a guess.
    """
    found = _over(analysis, analysis.steps, available_bytes)
    if analysis.steps.first_positions or analysis.rounds is None:
        return found
    other = _over(analysis, analysis.rounds, available_bytes)
    if not other.leaks or other.leaks[0].certainty is Certainty.POSSIBLE:
        return found
    note = f"No training steps were recognised: {analysis.rounds.why}, and each repetition counts as a step here."
    return replace(other, says=f"{other.says} {note}")


def _over(analysis: Analysis, cycle: Steps, available_bytes: int | None) -> Growth:
    """What grows from one step of `cycle` to the next."""
    fatal = fatal_oom(analysis.timeline)
    end = len(analysis.timeline) - 1 if fatal is None else fatal
    if cycle is analysis.steps and steps_end(analysis) <= end:
        # What failed after the last step of a trace, if anything did, is no step that failed.
        fatal, end = None, steps_end(analysis) - 1
    firsts = np.array([one for one in cycle.first_positions if one <= end], np.int64)
    steps = len(firsts)
    judged = steps - (1 if fatal is None else 2)
    if judged < MIN_STEPS:
        told = "no training steps were recognised"
        if steps:
            told = f"the trace has {steps} {'step' if steps == 1 else 'steps'}, too few"
        return Growth(f"Growth from step to step cannot be told: {told}.", steps)
    marks = _Marks(firsts, end, judged, cycle.certainty)
    rows, born_in = _survivors(analysis, marks)
    leaks = _leaks(analysis, rows, born_in, marks)
    peaks = _peaks(analysis, marks)
    first_bytes = _first_step(analysis, rows, born_in, leaks)
    per_step = sum(leak.bytes_per_step for leak in leaks)
    failed = fatal is not None and bool(leaks)
    fails = steps - 1 if failed else _fails_at(peaks, per_step, available_bytes)
    longest, usual = _longest(analysis, marks, peaks)
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
    told = says(
        found,
        failed=fatal is not None,
        traced=analysis.exact is not None,
        left=_left(analysis, rows[born_in == 0]),
        peak_phase=_phase_of_peak(analysis, marks, longest) if longest is not None else Phase.UNKNOWN,
    )
    return replace(found, says=told)


def _survivors(analysis: Analysis, marks: _Marks) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
    """Blocks born in one of the judged steps and alive at the end: rows, and the step of each."""
    lives = analysis.lifetimes
    until = marks.firsts[marks.judged]
    rows = np.flatnonzero((lives.born >= marks.firsts[0]) & (lives.born < until) & (lives.freed > marks.end))
    return rows, np.searchsorted(marks.firsts, lives.born[rows], side="right") - 1


def _leaks(
    analysis: Analysis, rows: NDArray[np.intp], born_in: NDArray[np.int64], marks: _Marks
) -> tuple[Leak, ...]:
    """Stacks that leave blocks behind in step after step, up to the last step that can be judged."""
    kinds = _same(analysis, rows)
    series: dict[int, _Series] = {}
    for kind in np.unique(kinds).tolist():
        one = _series(born_in[kinds == kind], marks.judged - 1)
        if one is not None:
            series[kind] = one
    if not series:
        return ()
    every = np.flatnonzero(analysis.lifetimes.born >= marks.firsts[0])
    every_kind = _same(analysis, every)
    candidates = np.isin(every_kind, np.array(list(series), np.int64))
    every, every_kind = every[candidates], every_kind[candidates]
    found = [
        _leak(analysis, rows[kinds == kind], born_in[kinds == kind], one, marks.certainty)
        for kind, one in series.items()
        if _still_grows(analysis, every[every_kind == kind], marks, one)
    ]
    return tuple(sorted(found, key=lambda leak: -leak.bytes_per_step))


def _same(analysis: Analysis, rows: NDArray[np.intp]) -> NDArray[np.int64]:
    """A number for each row, the same for blocks that are taken for the same thing: by their stack, and where none
    was recorded by their size (as negative numbers)."""
    stacks = analysis.block_stack[rows].astype(np.int64)
    return np.where(stacks >= 0, stacks, -1 - analysis.lifetimes.requested_bytes[rows])


@dataclass(frozen=True)
class _Series:
    """Steps from `since` on in which something is left behind, `steps` in number, at most `stride` apart; `spanned` is
    the number of steps that they stand for. `steady`: as regular as a line that runs every step, or every few. `each`:
    so many blocks in each step, None where that is not one number."""

    since: int
    stride: int
    steps: int
    spanned: int
    steady: bool
    each: int | None = None


def _series(born_in: NDArray[np.int64], last: int) -> _Series | None:
    """The series that the steps of a stack's remaining blocks make, None when they make none. `last` is the last step
    that can be judged."""
    which, blocks = np.unique(born_in, return_counts=True)
    # What only the first step left (optimizer state, workspaces) does not begin a series.
    if len(which) > 1 and which[0] == 0 and which[1] > 1:
        which, blocks = which[1:], blocks[1:]
    if len(which) < MIN_STEPS:
        return None
    since, gaps = int(which[0]), np.diff(which)
    mean, stride = float(gaps.mean()), int(gaps.max())
    ended = last - int(which[-1])
    # What runs between two steps may count to either, so that one has two and the next none.
    span, each = last - since + 1, int(blocks.min())
    if (
        stride <= 2
        and ended <= 1
        and not (blocks % each).any()
        and abs(int(blocks.sum()) - each * span) <= each
    ):
        return _Series(since, stride, len(which), span, steady=True, each=each)
    regular = bool((gaps == stride).all())
    if ended > stride or stride > 2 * mean or not (regular or len(which) > MIN_STEPS):
        return None
    return _Series(since, stride, len(which), max(1, round(mean * len(which))), steady=regular)


def _still_grows(analysis: Analysis, rows: NDArray[np.intp], marks: _Marks, series: _Series) -> bool:
    """Whether what a stack's blocks (`rows`, freed ones too) hold is a list without an end. One that is emptied now and
    then, or that drops its oldest entry for each new one, also holds blocks of the last steps in a row: but it frees
    blocks that outlived later steps, and holds no more than it did before."""
    lives = analysis.lifetimes
    bounds = marks.firsts[1 : marks.judged + 1]
    begins = np.searchsorted(bounds, lives.born[rows], side="right")
    ends = np.searchsorted(bounds, lives.freed[rows], side="right")
    if not ((ends - begins >= 2) & (lives.freed[rows] <= marks.end)).any():
        return True
    size, count = lives.size_bytes[rows], len(bounds) + 1
    change = np.bincount(begins, size, count) - np.bincount(ends, size, count)
    held = np.cumsum(change)[:-1]
    recent = held[:: -series.stride][:MIN_STEPS]
    return bool(held[-1] >= held.max() and (np.diff(recent) < 0).all())


def _leak(
    analysis: Analysis,
    rows: NDArray[np.intp],
    in_steps: NDArray[np.int64],
    series: _Series,
    certainty: Certainty,
) -> Leak:
    sizes = analysis.lifetimes.size_bytes[rows]
    # What the first step leaves is not the usual: where no stack tells them apart, optimizer states are in it too.
    skipped = int(series.since == 0 and series.spanned > MIN_STEPS)
    counted = in_steps >= series.since + skipped
    blocks = int(counted.sum())
    per_step = blocks / (series.spanned - skipped) if series.each is None else series.each
    bytes_per_step = round(int(sizes[counted].sum()) / blocks * per_step)
    category = analysis.block_category[rows]
    numbers, counts = np.unique(category, return_counts=True)
    stack = int(analysis.block_stack[rows[0]])
    frames = analysis.frames(stack)
    steady = series.steady and stack >= 0
    sure = steady and series.steps >= MIN_STEPS + 2 and bytes_per_step >= SMALL_BYTES
    return Leak(
        frames=frames,
        place=place_of(frames),
        category=CATEGORIES[int(numbers[np.argmax(counts)])],
        bytes_per_step=bytes_per_step,
        blocks_per_step=float(per_step),
        steps=series.steps,
        total_bytes=int(sizes.sum()),
        first_step=series.since,
        certainty=_weaker(
            Certainty.CERTAIN if sure else Certainty.LIKELY if steady else Certainty.POSSIBLE,
            certainty,
        ),
    )


def _weaker(one: Certainty, other: Certainty) -> Certainty:
    """What rests on two things is no surer than the weaker."""
    order = tuple(Certainty)
    return order[max(order.index(one), order.index(other))]


def _first_step(
    analysis: Analysis, rows: NDArray[np.intp], born_in: NDArray[np.int64], leaks: tuple[Leak, ...]
) -> int:
    """What the first step left for good, apart from what leaks."""
    sizes = analysis.lifetimes.size_bytes[rows]
    leaked = sum(leak.bytes_per_step for leak in leaks if leak.first_step == 0)
    return max(0, int(sizes[born_in == 0].sum()) - leaked)


def _left(analysis: Analysis, rows: NDArray[np.intp]) -> Mapping[Category, int]:
    """Bytes of these blocks by category."""
    numbers, where = np.unique(analysis.block_category[rows], return_inverse=True)
    sums = np.bincount(where, analysis.lifetimes.size_bytes[rows], len(numbers))
    return {
        CATEGORIES[number]: int(size) for number, size in zip(numbers.tolist(), sums.tolist(), strict=True)
    }


def _phase_of_peak(analysis: Analysis, marks: _Marks, step: int) -> Phase:
    """The phase in which a step had the most allocated."""
    end = int(marks.firsts[step + 1]) if step + 1 < len(marks.firsts) else marks.end + 1
    first = int(marks.firsts[step])
    place = first + int(np.argmax(analysis.allocated_bytes[first:end]))
    return tuple(Phase)[int(analysis.event_phase[place])]


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


def _longest(analysis: Analysis, marks: _Marks, peaks: NDArray[np.int64]) -> tuple[int | None, int]:
    """The step whose peak stands out by what it needed itself, if there is one, and the peak that would be usual.

    What was there before a step is not its own: growth and caches make no batch longer. Nor, in the first step, is what
    is still there after it: the optimizer's states.
    """
    allocated = analysis.allocated_bytes
    lasting = allocated[np.maximum(marks.firsts - 1, 0)]
    lasting[0] = max(lasting[:2])
    own = peaks - lasting
    usual_own = _middle(own)
    top = int(np.argmax(own))
    usual = int(lasting[top]) + usual_own
    if peaks[top] > LONGER * usual:
        return top, usual
    return None, _middle(peaks)


def _middle(values: NDArray[np.int64]) -> int:
    """The median, of an even number the upper of the two in the middle: a mean of both may be nothing that ever was."""
    return int(np.sort(values)[len(values) // 2])
