"""The phases of one process, as they begin and end. All that happens at a boundary happens here.

Phases cut a run's time into pieces without gaps, so that no peak falls between two. A phase that a hook began lasts
until the next one begins (the loss is computed after the model's forward and belongs to it). What comes after an
optimizer's step (gradients are set to None, the next batch comes to the device) is a phase only where it has a peak of
its own.

Inside a phase another one can begin: a forward in an optimizer's closure, `with run.phase(...)` in anything. The outer
one is then recorded without the inner one's peaks. What hooks see inside of a forward, a backward (recomputation,
optimizers that step in it), a generation or a save belongs to that phase and is not told apart.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

from oomph.evidence.run.model import Now, PhaseRecord, StepRecord
from oomph.phases import Phase
from oomph.recording.batch import Shapes, elements

if TYPE_CHECKING:
    from oomph.probe.base import Device
    from oomph.probe.model import Counters, Host
    from oomph.recording.book import Book

#: Phases in which another one that a hook sees is a phase of its own.
_OPEN_TO_HOOKS = frozenset((Phase.INIT, Phase.LOAD, Phase.OPTIMIZER, Phase.UNKNOWN))
#: Phases that end when their code ends, and not when the next one begins.
_SHARP = frozenset((Phase.OPTIMIZER, Phase.SAVE, Phase.GENERATE))
_TRAINING = frozenset((Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER))
#: The whole card is read when the peak is so much above the last time.
_MUCH_MORE = 1.05
#: A peak between two phases that is so much above both its ends is told by itself, under this name.
_GAP_MORE, _GAP_LEAST = 1.02, 1 << 20
BETWEEN = "between phases"


@dataclass(eq=False)
class Open:
    """A phase that has begun."""

    phase: Phase
    step: int
    where: str
    explicit: bool
    by: int
    clock: float
    start_allocated_bytes: int
    peak_allocated_bytes: int = 0
    peak_reserved_bytes: int = 0
    times: int = 1
    batch: Shapes = field(default_factory=dict)
    elements: int = 0
    lingers: bool = False


class Boundaries:
    """Begins and ends phases on one device, and counts steps. Safe to call from several threads."""

    def __init__(
        self,
        device: Device,
        book: Book,
        *,
        now: Callable[[Now], None],
        host: Callable[[], Host | None],
        eval_every: float = 10.0,
    ) -> None:
        self._device = device
        self._book = book
        self._now = now
        self._host = host
        self._eval_every = eval_every
        self._pid = os.getpid()
        self._nothing = False
        self._lock = threading.RLock()
        self._stack: list[Open] = []
        self._whole_at = -1.0
        self._gap_allocated = 0
        self._gap_clock = time.monotonic()
        self._step_waits = False
        #: No model is watched, and the script says no forward of its own.
        self.tells_forward = True
        #: Hears of every step that has completed, also of those that are not written.
        self.on_step: Callable[[StepRecord], None] | None = None
        self._step_clock = time.monotonic()
        self._step_peaks = (0, 0)
        self._step_batch: Shapes = {}
        self._step_elements = 0
        #: Optimizer steps that are done; -1 before training begins.
        self.step = -1
        #: The last counters that were read, and the last that were read of the whole card.
        self.counters: Counters | None = None
        self.card: Counters | None = None
        #: The phases that have ended at least once, and what the last forward had above what was there before.
        self.occurred: set[Phase] = set()
        self.forward_growth_bytes = 0
        device.begin()
        self.begin(Phase.LOAD)
        self._stack[-1].lingers = True

    def begin(self, phase: Phase, where: str = "", *, explicit: bool = False, by: int = 0) -> Open | None:
        """A phase begins; None where it belongs to the one that is open. `by` tells who began it."""
        with self._lock:
            clock = time.monotonic()
            top = self._stack[-1] if self._stack else None
            gap = top is None
            if top is not None and by and top.by == by and not top.lingers and top.phase is phase:
                self._close(top, clock, "interrupted")  # its end was never heard of
                top = self._stack[-1] if self._stack else None
            if top is not None and top.lingers:
                if self._goes_on(top, phase, where, explicit, clock):
                    top.lingers = False
                    top.times += 1
                    return top
                self._close(top, clock)
                top = self._stack[-1] if self._stack else None
            if top is not None:
                if not explicit and (top.phase is phase or top.phase not in _OPEN_TO_HOOKS):
                    return None
                self._pause(top)
            elif gap and phase is Phase.BACKWARD and not explicit and self.tells_forward:
                self._forward_before(clock)
            elif gap:
                self._gap_ends(clock)
            if self.step < 0 and phase in _TRAINING:
                self.step = 0
                self._step_clock = clock
            if explicit and phase is Phase.FORWARD:
                self.tells_forward = False
            opened = Open(phase, self.step, where, explicit, by, clock, self._gap_allocated)
            self._stack.append(opened)
            self._say(opened, clock)
            return opened

    def _forward_before(self, clock: float) -> None:
        """No model is watched: what lies between a step and the next backward is the forward."""
        if self.step < 0:
            self.step = 0
            self._step_clock = self._gap_clock
        gap = Open(Phase.FORWARD, self.step, "", False, 0, self._gap_clock, self._gap_allocated)
        self._stack.append(gap)
        self._close(gap, clock)

    def _gap_ends(self, clock: float) -> None:
        """What was between phases (gradients are set to None, a batch comes to the device) is a phase only where it
        had a peak of its own."""
        counters = self._device.read()
        usual = max(self._gap_allocated, counters.allocated_bytes)
        if counters.peak_allocated_bytes > usual * _GAP_MORE + _GAP_LEAST:
            gap = Open(Phase.UNKNOWN, self.step, BETWEEN, False, 0, self._gap_clock, self._gap_allocated)
            self._stack.append(gap)
            self._close(gap, clock)
            return
        self._peaks(counters)
        self._gap_allocated = counters.allocated_bytes
        self._device.begin()

    def end(
        self, opened: Open | None, raised: str = "", *, linger: bool = False, sharp: bool = False
    ) -> None:
        """The phase's code has ended (with an exception of that name). `linger`: it lasts until the next begins;
        `sharp`: it does not."""
        if opened is None:
            return
        with self._lock:
            if opened not in self._stack:
                return
            clock = time.monotonic()
            while self._stack[-1] is not opened:
                self._close(self._stack[-1], clock, raised)
            if opened.phase is Phase.BACKWARD and (self.tells_forward or len(self._stack) > 1):
                sharp = True  # what comes next is the next batch's forward, or the rest of the outer phase
            if raised or sharp or opened.explicit or (opened.phase in _SHARP and not linger):
                self._close(opened, clock, raised)
                if not self._stack:
                    self._say(opened, clock, over=True)
                if self._step_waits and not self.open_by(Phase.OPTIMIZER):
                    self._step_waits = False
                    self.step_done()
            else:
                opened.lingers = True
                if linger:
                    opened.times -= 1  # the step that it prepares counts

    def rename(self, before: Phase, after: Phase) -> None:
        """The phase that lingers was another: an evaluation mode forward that a backward followed."""
        with self._lock:
            if self._stack and self._stack[-1].lingers and self._stack[-1].phase is before:
                self._stack[-1].phase = after

    def batch(self, shapes: Shapes) -> None:
        """The batch of the phase that is open; the largest counts."""
        with self._lock:
            if not self._stack or not shapes:
                return
            top, count = self._stack[-1], elements(shapes)
            if count > top.elements:
                top.batch, top.elements = shapes, count
            if top.phase is not Phase.EVAL and count > self._step_elements:
                self._step_batch, self._step_elements = shapes, count

    def step_done(self) -> None:
        """An optimizer step has completed. Inside a phase of that name it is recorded when that ends."""
        with self._lock:
            if self.open_by(Phase.OPTIMIZER):
                self._step_waits = True
                return
            clock = time.monotonic()
            counters = self.counters if self.counters is not None else self._device.read()
            allocated, reserved = self._step_peaks
            record = StepRecord(
                step=max(self.step, 0),
                time=time.time(),
                clock=clock,
                seconds=clock - self._step_clock,
                counters=msgspec.structs.replace(
                    counters, peak_allocated_bytes=allocated, peak_reserved_bytes=reserved
                ),
                batch=self._step_batch,
            )
            self._book.step(record)
            self.step = max(self.step, 0) + 1
            self._step_clock = clock
            self._step_peaks = (0, 0)
            self._step_batch, self._step_elements = {}, 0
            if self.on_step is not None:
                self.on_step(record)

    def know_nothing(self) -> None:
        """The recording begins after the fact: what the process was doing is not known."""
        with self._lock:
            self._stack.clear()
            self._nothing = True
            self._now(self.current())

    def current(self) -> Now:
        """What is going on. Takes no lock: it is asked when memory has run out, and by other threads."""
        stack = self._stack
        top = stack[-1] if stack else None
        if top is None:
            where = "" if self._nothing else BETWEEN
            return Now(Phase.UNKNOWN, self.step, time.time(), self._gap_clock, self._pid, where)
        return Now(top.phase, top.step, time.time(), top.clock, where=top.where)

    def current_batch(self) -> Shapes:
        """The batch that is being worked on: of the open phase, else of the step."""
        stack = self._stack
        return (stack[-1].batch if stack else {}) or self._step_batch

    def open_by(self, phase: Phase) -> bool:
        """Whether that phase is open now, and its code has not ended."""
        stack = self._stack
        return bool(stack) and stack[-1].phase is phase and not stack[-1].lingers

    def drop(self, phase: Phase) -> None:
        """The open phase's code is known to have ended by an exception that nobody told of."""
        with self._lock:
            if self.open_by(phase):
                self._close(self._stack[-1], time.monotonic(), "exception")

    def finish(self, raised: str = "") -> None:
        """All phases end."""
        with self._lock:
            clock = time.monotonic()
            while self._stack:
                self._close(self._stack[-1], clock, "" if self._stack[-1].lingers else raised)

    def _goes_on(self, top: Open, phase: Phase, where: str, explicit: bool, clock: float) -> bool:
        """Whether the phase that lingers is the one that begins again: two forwards of one step, a whole evaluation."""
        if explicit or top.explicit or top.phase is not phase or top.where != where or top.step != self.step:
            return False
        return phase is not Phase.EVAL or clock - top.clock < self._eval_every

    def _pause(self, top: Open) -> None:
        """The outer phase's peaks so far; from now on the inner one's count."""
        counters = self._device.read()
        top.peak_allocated_bytes = max(top.peak_allocated_bytes, counters.peak_allocated_bytes)
        top.peak_reserved_bytes = max(top.peak_reserved_bytes, counters.peak_reserved_bytes)
        self._peaks(counters)
        self._gap_allocated = counters.allocated_bytes
        self._device.begin()

    def _peaks(self, counters: Counters) -> None:
        self._step_peaks = (
            max(self._step_peaks[0], counters.peak_allocated_bytes),
            max(self._step_peaks[1], counters.peak_reserved_bytes),
        )

    def _close(self, opened: Open, clock: float, raised: str = "") -> None:
        counters = self._device.read()
        if counters.peak_reserved_bytes > self._whole_at * _MUCH_MORE or opened.phase is Phase.LOAD:
            self._whole_at = max(self._whole_at, float(counters.peak_reserved_bytes))
            counters = self.card = self._device.whole()
        self._peaks(counters)
        allocated = max(opened.peak_allocated_bytes, counters.peak_allocated_bytes)
        reserved = max(opened.peak_reserved_bytes, counters.peak_reserved_bytes)
        if allocated != counters.peak_allocated_bytes or reserved != counters.peak_reserved_bytes:
            counters = msgspec.structs.replace(
                counters, peak_allocated_bytes=allocated, peak_reserved_bytes=reserved
            )
        self.counters = counters
        self.occurred.add(opened.phase)
        if opened.phase is Phase.FORWARD:
            self.forward_growth_bytes = allocated - opened.start_allocated_bytes
        self._stack.remove(opened)
        self._gap_allocated = counters.allocated_bytes
        self._gap_clock = clock
        self._device.begin()
        self._book.phase(
            PhaseRecord(
                phase=opened.phase,
                step=opened.step,
                time=time.time(),
                clock=clock,
                seconds=clock - opened.clock,
                counters=counters,
                start_allocated_bytes=opened.start_allocated_bytes,
                times=max(opened.times, 1),
                where=opened.where,
                host=self._host() if opened.phase is not Phase.FORWARD else None,
                batch=opened.batch,
                raised=raised,
            )
        )

    def _say(self, opened: Open, clock: float, *, over: bool = False) -> None:
        self._now(
            Now(
                phase=opened.phase,
                step=opened.step,
                time=time.time(),
                clock=clock,
                where=opened.where,
                pid=self._pid,
                over=over,
                allocated_bytes=self._gap_allocated,
            )
        )
