"""One recording: the life of one rank, from `oomph.record()` to its end."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import msgspec

from oomph.errors import UsageError
from oomph.evidence.run.model import (
    RUN,
    VERSION,
    End,
    Header,
    Note,
    OomRecord,
    PhaseRecord,
    Record,
    Run,
    StepRecord,
)
from oomph.phases import Phase
from oomph.recording import libraries
from oomph.recording.background import Background
from oomph.recording.batch import of_values
from oomph.recording.book import Book
from oomph.recording.boundaries import BETWEEN, Boundaries, Open
from oomph.recording.endings import Endings
from oomph.recording.hooks import Hooks
from oomph.recording.host import HostMemory
from oomph.recording.listeners import Listener, Listeners
from oomph.recording.oom import Failures, out_of_memory
from oomph.recording.patches import Patches
from oomph.recording.troubles import Troubles, say
from oomph.recording.watchdog import Watchdog, describe
from oomph.recording.writer import Writer, create_once

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
        self.endings = Endings(self.ended_by, self.saw)
        self.forecast: Forecast | None = None
        self.header: Header | None = None

    # -- beginning -----------------------------------------------------------------------------------------

    def begin(self, name: str, tags: Mapping[str, str], history: int) -> None:
        """Writes the first records, and hooks what is general."""
        self.active = True
        whole = self.device.whole()
        now, clock = time.time(), time.monotonic()
        run = Run(
            version=VERSION,
            id=self.directory.name if self.directory is not None else "",
            started=now,
            directory=str(self.directory or ""),
            host=socket.gethostname(),
            world_size=self.rank.world_size,
            oomph=_version(),
            name=name,
            tags=dict(tags),
        )
        limits = list(getattr(self.device, "limits", ()))
        why = self.device.record_history(history) if history else ""
        if why:
            limits.append(f"no history in snapshots: {why}")
        self.header = Header(
            version=VERSION,
            rank=self.rank.rank,
            world_size=self.rank.world_size,
            local_rank=self.rank.local_rank,
            pid=self._pid,
            host=run.host,
            time=now,
            clock=clock,
            attempt=max(self.rank.attempt, _attempts(self.writer.path)),
            device=self.device.name,
            device_index=self.device.index,
            capacity_bytes=whole.total_bytes,
            limits=tuple(limits),
        )
        if self.directory is not None:
            try:
                create_once(
                    self.directory / RUN, msgspec.json.format(msgspec.json.encode(run), indent=1) + b"\n"
                )
            except OSError as error:
                self.troubles.complain(f"{self.directory / RUN}: {error.strerror or error}")
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
        models = list(_each(model))
        for one in models:
            if not hasattr(one, "register_forward_pre_hook"):
                raise UsageError(
                    f"model is a {type(one).__name__}: it is to be a torch.nn.Module, or several of them."
                )
        for one in models:
            self.phases.tells_forward = False
            self.safely(self.hooks.watch, one)
            if _is_engine(one):
                from oomph.recording.callbacks.deepspeed import watch_engine

                self.safely(watch_engine, self, one)
        for one in _each(optimizer):
            inner = one
            while hasattr(inner, "optimizer") and inner.optimizer is not inner:
                inner = inner.optimizer
            if hasattr(inner, "param_groups") and hasattr(type(inner), "profile_hook_step"):
                self.safely(self.hooks.steps.expect, inner)

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
        if outcome == "completed" and self.failures.open is not None and not self._leaves_in_order(error):
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

    def _leaves_in_order(self, error: BaseException | None) -> bool:
        return isinstance(error, SystemExit) and error.code in (None, 0)

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


def outcome_of(error: BaseException | None) -> str:
    """One of "completed", "oom", "interrupted" and "exception"."""
    if error is None or (isinstance(error, SystemExit) and error.code in (None, 0)):
        return "completed"
    if out_of_memory(error) is not None:
        return "oom"
    return "interrupted" if isinstance(error, KeyboardInterrupt) else "exception"


def said(record: OomRecord, rank: int, world_size: int, directory: Path | None) -> str:
    """What is said of a failure in one sentence."""
    from oomph.evidence.run.model import Now
    from oomph.units import format_bytes

    who = f"rank {rank} ran" if world_size > 1 else "memory ran"
    where = f" in {describe(Now(record.phase, record.step, record.time, record.clock))}"
    if record.phase is Phase.UNKNOWN:
        where = (
            f" {record.where}" if record.where == BETWEEN else f" in {record.where}" if record.where else ""
        )
    counters = record.counters
    asked = f"; {format_bytes(record.request_bytes)} were asked for" if record.request_bytes else ""
    free = f", {format_bytes(counters.free_bytes)} free" if counters.free_bytes is not None else ""
    out = "out of memory" if world_size > 1 else "out"
    text = (
        f"{who} {out}{where}{asked} with {format_bytes(counters.allocated_bytes)} allocated, "
        f"{format_bytes(counters.reserved_bytes)} reserved{free}"
    )
    return f"{text}. `oomph explain {directory}` says why" if directory is not None else text


def _each(given: object) -> Iterable[Any]:
    if given is None:
        return ()
    if isinstance(given, Mapping):
        return tuple(given.values())
    return tuple(given) if isinstance(given, (list, tuple)) else (given,)


def _is_engine(model: Any) -> bool:
    """Whether it is an engine as DeepSpeed has them: a module with a backward and a step of its own."""
    return all(callable(getattr(model, name, None)) for name in ("backward", "step")) and hasattr(
        model, "is_gradient_accumulation_boundary"
    )


def _attempts(path: Path | None) -> int:
    """Headers that are in the file already: how often this rank began before."""
    try:
        if path is None or path.stat().st_size > 256 << 20:
            return 0
        with path.open("rb") as file:
            return sum(line.startswith(b'{"type":"header"') for line in file)
    except OSError:
        return 0


def _version() -> str:
    from oomph import __version__

    return __version__
