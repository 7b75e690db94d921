"""One recording: the life of one rank, from `oomph.record()` to its end."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from oomph.errors import UsageError
from oomph.evidence.run.model import End, Header, Note, OomRecord, PhaseRecord, Record, StepRecord
from oomph.phases import Phase
from oomph.recording import libraries
from oomph.recording.background import Background
from oomph.recording.batch import of_values
from oomph.recording.book import Book
from oomph.recording.boundaries import Boundaries, Open
from oomph.recording.endings import Endings
from oomph.recording.hooks import Hooks
from oomph.recording.host import HostMemory
from oomph.recording.listeners import Listener, Listeners
from oomph.recording.oom import Failures, out_of_memory
from oomph.recording.opening import make_header, write_run
from oomph.recording.outcome import outcome_of, said
from oomph.recording.patches import Patches
from oomph.recording.troubles import Troubles, say
from oomph.recording.watchdog import Watchdog
from oomph.recording.watching import watch
from oomph.recording.writer import Writer

if TYPE_CHECKING:
    from oomph.probe.base import Device
    from oomph.recording.forecast import Forecast
    from oomph.recording.where import Rank

#: The wall clock has jumped when it moved by so much against the one that cannot.
_JUMP_SECONDS = 2.0
_FLUSH_SECONDS = 3.0


class Recording:
    """Records one rank. Made by `oomph.record()`; a context manager, or ended by `end()`, or at the exit.

    Nothing that goes wrong in here reaches the job: it is said once, and recording goes on or stops.
    """

    def __init__(
        self,
        device: Device,
        rank: Rank,
        directory: Path | None,
        troubles: Troubles,
        *,
        every: float = 10.0,
        listeners: Iterable[Listener] = (),
    ) -> None:
        self.device = device
        self.rank = rank
        #: The run directory; None where there is none, and records are only in memory.
        self.directory = directory
        self.active = False
        #: Whoever explains the failure itself says so here.
        self.quiet = False
        #: The `id` of the exception that ended it.
        self.ended_with = 0
        self.troubles = troubles
        self.writer = Writer(directory, rank.rank, troubles.complain)
        self.listeners = Listeners(listeners, troubles.complain)
        self.patches = Patches()
        self._put_lock = threading.RLock()
        self._pid = os.getpid()
        self._joined = 0
        self._offset: float | None = None
        self._host = HostMemory()
        self.background = Background(self.trouble)
        self.book = Book(self.put, every)
        self.phases = Boundaries(
            device, self.book, now=self.writer.now, host=self._host.read, eval_every=max(every, 1.0)
        )
        self.failures = Failures(device, self.phases, rank.rank, directory, self.put, troubles.complain)
        self.hooks = Hooks(self)
        self.endings = Endings(self.process_ends, self.saw)
        self.forecast: Forecast | None = None
        self.header: Header | None = None

    # -- beginning -----------------------------------------------------------------------------------------

    def begin(self, name: str, tags: Mapping[str, str], history: int) -> None:
        """Writes the first records, and hooks what is general."""
        self.active = True
        run = write_run(self, name, tags)
        self.header = make_header(self, history)
        self.put(self.header)
        self.listeners.begin(run, self.header)
        self.troubles.note = lambda sentence: self.note(sentence, code="lost")
        self.device.on_out_of_memory(self.failures.observed)
        self.hooks.install()
        libraries.install(self)
        self.endings.install()
        self.phases.on_step = self._on_step
        self.background.every(lambda: _FLUSH_SECONDS, self.writer.flush)
        if self.directory is not None and self.rank.world_size > 1:
            dog = Watchdog(
                self.directory, self.rank.rank, self.rank.world_size, self.phases.current, self.add_note
            )
            self.background.every(lambda: dog.interval, dog.poll)
        self.background.start()

    def watch(self, model: object = None, optimizer: object = None) -> None:
        """Watches models and optimizers (one, or several in a list, tuple or dict) from now on."""
        try:
            watch(self, model, optimizer)
        except UsageError:
            raise
        except Exception as error:  # noqa: BLE001 - an object of the job's that does not let itself be watched
            self.trouble(error)

    def join(self) -> Recording:
        """`oomph.record()` while this one records: the same recording, which ends when all have ended."""
        self._joined += 1
        return self

    # -- phases --------------------------------------------------------------------------------------------

    def phase(self, name: str | Phase, where: str = "", *, batch: object = None) -> PhaseBlock:
        """`with run.phase("forward"): ...` One of oomph's phases, or a name of your own.

        `where` says more of it ("encoder"). `batch` is the batch, for its shapes: a tensor, or a table or list of them.
        """
        try:
            phase = Phase(str(name))
        except ValueError:
            phase, where = Phase.UNKNOWN, where or str(name)
        return PhaseBlock(self, phase, where, batch)

    def enter(self, phase: Phase, where: str = "", *, explicit: bool = False, by: int = 0) -> Open | None:
        """A phase begins. None where it is part of another, or nothing is recorded."""
        if not self.active or os.getpid() != self._pid:
            return None
        try:
            if self.failures.open is not None and phase is not Phase.SAVE:
                self.failures.went_on()  # a save may be what a script does on its way out
            return self.phases.begin(phase, where, explicit=explicit, by=by)
        except Exception as error:  # noqa: BLE001 - never the job's business
            self.trouble(error)
            return None

    def leave(self, opened: Open | None, error: BaseException | None = None, *, sharp: bool = False) -> None:
        """A phase's code has ended, maybe by an exception. `sharp`: the phase does not last until the next."""
        if not self.active or os.getpid() != self._pid:
            return
        try:
            if error is not None:
                self.saw(error)
            self.phases.end(opened, type(error).__name__ if error is not None else "", sharp=sharp)
        except Exception as trouble:  # noqa: BLE001 - never the job's business
            self.trouble(trouble)

    def linger(self, opened: Open | None) -> None:
        """What prepares a phase has ended; the phase lasts until the next."""
        if self.active and opened is not None:
            self.safely(lambda: self.phases.end(opened, linger=True))

    def step_done(self) -> None:
        """An optimizer step has completed. Hooks call it; who has an optimizer that is none of PyTorch's calls it."""
        if not self.active or os.getpid() != self._pid:
            return
        self.safely(self.phases.step_done)
        if self.failures.open is not None:
            self.safely(self.failures.went_on)

    def _on_step(self, record: StepRecord) -> None:
        self.patches.look()
        if self.forecast is not None:
            self.forecast.step(record)

    def saw(self, error: BaseException) -> None:
        """An exception is on its way up: is it one of memory?"""
        if os.getpid() == self._pid and out_of_memory(error) is not None:
            self.book.flush()
            self.safely(self.failures.raised, error)

    # -- records -------------------------------------------------------------------------------------------

    def put(self, record: Record) -> None:
        """Writes a record, and tells the listeners."""
        durable = isinstance(record, (OomRecord, End))
        with self._put_lock:
            if not isinstance(record, OomRecord):
                self._look_at_clock(record.time - record.clock, record.time, record.clock)
            self.writer.write(record, durable=durable)
            if self.listeners:
                self._tell(record)

    def _tell(self, record: Record) -> None:
        if isinstance(record, PhaseRecord):
            self.listeners.phase(record)
        elif isinstance(record, StepRecord):
            self.listeners.step(record)
        elif isinstance(record, Note):
            self.listeners.note(record)
        elif isinstance(record, OomRecord):
            self.listeners.oom(record)
        elif isinstance(record, End):
            self.listeners.end(record)

    def _look_at_clock(self, offset: float, now: float, clock: float) -> None:
        before, self._offset = self._offset, offset
        if before is None or abs(offset - before) < _JUMP_SECONDS:
            return
        way = "forward" if offset > before else "back"
        text = f"the wall clock jumped {way} by {abs(offset - before):.0f} s, or the machine slept"
        self.writer.write(Note("clock", text, now, clock, step=self.phases.step))

    def note(self, text: str, *, code: str = "user", numbers: Mapping[str, int] | None = None) -> None:
        """A remark of your own in the record."""
        now = self.phases.current()
        self.add_note(
            Note(
                code,
                text,
                time.time(),
                time.monotonic(),
                phase=now.phase,
                step=now.step,
                numbers=dict(numbers or {}),
            )
        )

    def add_note(self, note: Note) -> None:
        """A note that is made already."""
        self.safely(self.put, note)
        if threading.current_thread() is self.background.thread:
            self.writer.flush()  # without the lock: a disk that is slow holds up this thread alone

    # -- the end -------------------------------------------------------------------------------------------

    def end(self, error: BaseException | None = None) -> None:
        """Ends the recording, `error` being what ended the job. All hooks are taken away. A second time is nothing."""
        after = self.ended_by(error)
        if after is not None:
            after()

    def process_ends(self, error: BaseException | None) -> Callable[[], None] | None:
        """As `ended_by`, for all that have joined: behind it nobody comes to end his own."""
        self._joined = 0
        return self.ended_by(error)

    def ended_by(self, error: BaseException | None) -> Callable[[], None] | None:
        """As `end`; what is to be said is returned."""
        if not self.active or os.getpid() != self._pid:
            return None
        if error is not None:
            self.saw(error)
        if self._joined:
            self._joined -= 1
            return None
        try:
            return self._finish(error)
        except Exception as trouble:  # noqa: BLE001 - never the job's business
            self.trouble(trouble)
            return None
        finally:
            self.active = False
            self._take_away()

    def _finish(self, error: BaseException | None) -> Callable[[], None] | None:
        self.ended_with = id(error) if error is not None else 0
        outcome = outcome_of(error)
        # Who catches it, prints something and leaves has not gone on.
        if self.failures.open is not None and self._gives_up(error):
            outcome = "oom"
        self.phases.finish(type(error).__name__ if error is not None else "")
        self.book.close()
        self.background.stop()
        text = "" if error is None else f"{type(error).__name__}: {error}"[:2_000]
        self.put(End(outcome, time.time(), time.monotonic(), error=text, records_lost=self.writer.lost))
        self.writer.close()
        if outcome != "oom" or self.failures.last is None:
            return None
        sentence = said(self.failures.last, self.rank.rank, self.rank.world_size, self.directory)
        return lambda: None if self.quiet else say(sentence)

    def _gives_up(self, error: BaseException | None) -> bool:
        """Whether the job ends for a failed request after which it never went on: by exit(3) or an error of its own."""
        if isinstance(error, SystemExit):
            return error.code not in (None, 0)
        return error is None or out_of_memory(error.__context__) is not None

    def _take_away(self) -> None:
        self.background.stop()
        self.patches.undo()
        self.hooks.forget()
        self.endings.remove()
        for close in (self.device.close, self._host.close, self.writer.close):
            try:
                close()
            except Exception as error:  # noqa: BLE001 - the others are to be closed too
                self.troubles.caught(error)

    def __enter__(self) -> Recording:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.end(error)

    # -- trouble -------------------------------------------------------------------------------------------

    def safely(self, function: Callable[..., Any], *args: Any) -> Any:
        """Calls a function of the recorder's own, from a hook."""
        if not self.active or os.getpid() != self._pid:
            return None
        try:
            return function(*args)
        except Exception as error:  # noqa: BLE001 - never the job's business
            self.trouble(error)
            return None

    def trouble(self, error: BaseException) -> None:
        """One of the recorder's own errors. After too many of them it takes its hooks away."""
        if self.troubles.caught(error) and self.active:
            self.active = False
            self.troubles.complain("recording stops after too many errors of its own")
            self._take_away()

    def give_up(self, error: BaseException) -> None:
        """It could not begin: the job runs without being recorded."""
        self.active = False
        self.troubles.caught(error)
        self.troubles.complain("nothing is recorded")
        self._take_away()


class PhaseBlock:
    """The block of a `with run.phase(...)`."""

    def __init__(self, recording: Recording, phase: Phase, where: str, batch: object) -> None:
        self._recording, self._phase, self._where, self._batch = recording, phase, where, batch
        self._opened: Open | None = None

    def __enter__(self) -> None:
        recording = self._recording
        self._opened = recording.enter(self._phase, self._where, explicit=True)
        if self._batch is not None:
            recording.safely(lambda: recording.phases.batch(of_values(self._batch)))

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._recording.leave(self._opened, error)
        self._opened = None
