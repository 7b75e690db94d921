"""The words that all renderers of snapshots share: the headline, the moment, places, and how a thing was told."""

from __future__ import annotations

from collections.abc import Iterable

from oomph.diagnose.model import Certainty, PhaseVerdict, RuledOut
from oomph.diagnose.snapshot.model import (
    DeviceReport,
    Failure,
    How,
    Moment,
    PoolUse,
    SnapshotReport,
    Trial,
    Verdict,
    WhatIf,
)
from oomph.phases import Phase
from oomph.report.clean import cut, flat
from oomph.report.snapshot.places import cpp_place, place_in_sentence
from oomph.report.snapshot.places import frame_line as frame_line
from oomph.report.snapshot.places import holder_place as holder_place
from oomph.report.snapshot.places import place_of as place_of
from oomph.report.snapshot.places import place_words as place_words
from oomph.report.snapshot.view import SnapshotView, is_used
from oomph.report.words import phase_words, plural
from oomph.units import format_bytes

#: Characters of the allocator's settings.
_SETTINGS = 300

_VERDICTS = {
    Verdict.FULL: "the device was full",
    Verdict.FRAGMENTED: "enough memory was free, but in pieces",
    Verdict.CAPPED: "a limit stood in the way, not the device",
    Verdict.OTHER_POOL: "what was free belonged to another pool or stream",
    Verdict.OUTSIDE_GREW: "memory outside PyTorch had grown",
}

_MOMENTS = {
    "oom": "when the request failed",
    "retry": "when cached memory was given back to serve a request",
    "peak allocated": "when the most was allocated",
    "peak reserved": "when the most was reserved",
    "asked for": "at the moment asked for",
    "end": "when the snapshot was taken",
}
_HOW = {
    How.FRAMES: "stacks",
    How.ANNOTATIONS: "annotations",
    How.LIFETIME: "lifetimes",
    How.SIZE: "sizes",
    How.PERIOD: "repetition",
    How.TRACED: "the trace",
}


def headline(view: SnapshotView) -> str:
    """One sentence: what failed, where and why; or that no request failed."""
    device = view.device
    if device is None or not is_used(device):
        return "The snapshot is empty: PyTorch held no GPU memory and no event was recorded"
    failure = device.failure
    if failure is None:
        return _no_failure(device)
    where = _where(device.moment, failure)
    told = f"GPU {device.index}: a request of {format_bytes(failure.request_bytes)} failed{where}"
    went_on = "; the job went on after it" if failure.caught else ""
    growing = _growing(device)
    return f"{told}: {verdict_words(failure)}{f'; {growing}' if growing else ''}{went_on}"


def _growing(device: DeviceReport) -> str | None:
    """What fills the device step by step, where that is more than a guess."""
    growth = device.growth
    if growth is None or not growth.leaks or growth.leaks[0].certainty is Certainty.POSSIBLE:
        return None
    return f"memory grows by {format_bytes(growth.bytes_per_step)} in each step"


def _no_failure(device: DeviceReport) -> str:
    if not device.events:
        return (
            f"GPU {device.index}: no history was recorded; PyTorch held "
            f"{format_bytes(device.ledger.reserved_bytes or 0)} when the snapshot was taken"
        )
    told = f"GPU {device.index}: no request failed"
    if device.retries:
        times = "once" if len(device.retries) == 1 else f"{len(device.retries):,} times"
        return f"{told}, but cached memory was given back {times} to serve one"
    if (growing := _growing(device)) is not None:
        return f"{told}, but {growing}"
    return (
        f"{told}; at most {format_bytes(device.peak_allocated_bytes)} was allocated and "
        f"{format_bytes(device.peak_reserved_bytes)} reserved"
    )


def _where(moment: Moment, failure: Failure) -> str:
    """Phase and place of a failure: " in backward at train.py:70 (step)"; "" where neither is known."""
    known = moment.position == failure.position and moment.phase is not Phase.UNKNOWN
    phase = f" {phase_of(moment.phase)}" if known else ""
    frame = place_of(failure.frames)
    if frame is None:
        return phase + (f" at {place}" if (place := cpp_place(failure.frames)) else "")
    return f"{phase} at {place_in_sentence(frame)}"


def verdict_words(failure: Failure) -> str:
    """Why, in a few words, with how sure that is."""
    if failure.verdict is Verdict.UNKNOWN:
        return "the snapshot does not say enough to tell why"
    sure = "" if failure.certainty is Certainty.CERTAIN else f" ({failure.certainty})"
    return _VERDICTS[failure.verdict] + sure


def phase_of(phase: Phase) -> str:
    """A phase in a sentence: "in backward"."""
    return phase_words(PhaseVerdict(phase, "none", ""))


def moment_title(moment: Moment) -> str:
    """The moment after a noun: "when the request failed"."""
    return _MOMENTS.get(moment.kind, f"at {flat(moment.kind)}")


def moment_words(device: DeviceReport) -> str:
    """Where in the trace the moment is: event, time, phase and training step; "" without history."""
    moment = device.moment
    if not device.events:
        return ""
    told = [
        f"event {moment.position:,} of {device.events:,}"
        if moment.position >= 0
        else "the start, before the first event"
    ]
    if moment.after_us >= 0 and moment.position >= 0:
        told.append(f"{seconds(moment.after_us)} after the first")
    if moment.phase is not Phase.UNKNOWN:
        how = f" (told by {_HOW[moment.phase_how]})" if moment.phase_how in _HOW else ""
        told.append(f"{phase_of(moment.phase)}{how}")
    else:
        told.append("in an unknown phase")
    steps = device.steps
    if moment.step is not None and steps is not None and steps.count:
        of = f"of {steps.count:,}, from 0" if moment.step < steps.count else "from 0; not finished"
        maybe = "possibly " if steps.certainty is Certainty.POSSIBLE else ""
        told.append(f"{maybe}in training step {moment.step:,} ({of})")
    start = "It was" if moment.kind == "oom" else f"Shown is the moment {moment_title(moment)}:"
    if moment.kind == "asked for":
        start = "Shown is the moment that was asked for:"
    return f"{start} {', '.join(told)}."


def seconds(microseconds: int) -> str:
    """A duration: "12.35 s", "3.2 ms"."""
    if microseconds >= 10**5:
        return f"{microseconds / 10**6:,.2f} s"
    return f"{microseconds / 10**3:,.1f} ms"


def told_by(how: How, certainty: Certainty) -> str:
    """How a category was told and how surely: "stacks (likely)"; "nothing told it"."""
    return f"{_HOW[how]} ({certainty})" if how in _HOW else "nothing tells"


def pool_name(pool: tuple[int, int]) -> str:
    """A pool by its two numbers: "default pool", "private pool (1, 0)"."""
    return "default pool" if pool == (0, 0) else f"private pool {pool}"


def sentence(text: str) -> str:
    """`text` on one line, beginning with a capital where its first word is a plain one."""
    text = flat(text)
    first = text.partition(" ")[0]
    return text[0].upper() + text[1:] if first.isalpha() and first.islower() else text


def pool_words(pool: PoolUse) -> str:
    """A free list of the allocator: "default pool, stream 0, large blocks"."""
    kind = "small" if pool.small else "large"
    return f"{pool_name(pool.pool)}, stream {pool.stream}, {kind}{', expandable' if pool.expandable else ''}"


def trial_fails(trial: Trial, what_if: WhatIf) -> str:
    """Whether a trial would have failed: "no", "at event 1,234", or that it is not known."""
    if trial.fails_at is not None:
        return f"at event {trial.fails_at:,}"
    return "not known" if what_if.capacity_bytes is None else "no"


def read_words(report: SnapshotReport) -> str:
    """What was read: file, events, devices, format."""
    used = [one for one in report.devices if is_used(one)]
    size = (
        f"{report.size_bytes / 10**6:,.1f} MB"
        if report.size_bytes >= 10**5
        else f"{report.size_bytes:,} bytes"
    )
    size = f", {size}" if report.size_bytes else ""
    events = plural(sum(one.events for one in report.devices), "event")
    told = flat(report.settings)
    settings = f" Allocator settings: {cut(told, _SETTINGS)}." if told else ""
    return (
        f"Read {flat(report.source)}{size}: {events} on {plural(len(used), 'device')}; "
        f"format of PyTorch {flat(report.era)}.{settings}"
    )


def percent(part: int, whole: int) -> str:
    """A share: "57 %", "< 1 %"; "" of nothing."""
    if whole <= 0:
        return ""
    share = 100 * part / whole
    if 99.5 <= share < 100:
        return "> 99 %"
    return "< 1 %" if 0 < share < 1 else f"{share:.0f} %"


def ruled_out(every: Iterable[RuledOut]) -> list[tuple[str, str]]:
    """Causes that were set aside, each with its reason; the same reason is told once."""
    told: dict[str, str] = {}
    for ruled in every:
        told.setdefault(flat(ruled.why), flat(ruled.cause).replace("_", " "))
    return [(cause, why) for why, cause in told.items()]
