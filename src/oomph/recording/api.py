"""`oomph.record()`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from oomph.errors import UsageError

if TYPE_CHECKING:
    from oomph.probe.base import Device
    from oomph.recording.listeners import Listener
    from oomph.recording.recorder import Recording

#: Entries of PyTorch's memory history that a snapshot has at most.
HISTORY = 100_000
_current: list[Recording] = []
_latest: list[Recording] = []


def record(
    *,
    model: object = None,
    optimizer: object = None,
    run_dir: str | os.PathLike[str] | None = None,
    name: str = "",
    arguments: object = None,
    data: object = None,
    longest: int | None = None,
    evaluation: int | None = None,
    steps: int | None = None,
    tags: Mapping[str, str] | None = None,
    every: float = 10.0,
    history: int | bool = True,
    warn: bool = True,
    device: Device | None = None,
    listeners: Iterable[Listener] = (),
    exports: Iterable[str] = (),
) -> Recording:
    """Records where memory goes, from now until the end of the `with` block, `end()`, or the exit of the process.

        with oomph.record(model=model, optimizer=optimizer):
            ...                                  # the loop as it is: phases are found by hooks

        with oomph.record() as run:              # or said by the loop
            with run.phase("forward"): ...

    `model` and `optimizer` are what is trained, each one or several. The run goes to `OOMPH_RUN_DIR`, else `run_dir`,
    else oomph-runs/<time>-<name>-<id>: all ranks of a launch find the same (docs/runs.md). `arguments` and `data` go
    into the fingerprint. For warnings ahead of time: `longest`, tokens of the longest sequence that the data has;
    `evaluation`, sequences of an evaluation's batch; `steps`, how many optimizer steps there will be. `warn=False`
    says nothing. `every`: after the first fifty steps one is written so many seconds apart, besides those with news;
    0 writes all. `history`: entries of PyTorch's memory history to keep for the snapshot of a failed request (True:
    100,000; PyTorch says that it costs about two microseconds for each allocation; 0 keeps none). `exports` are
    listeners as `oomph.recording.exports` names them; a URL as run directory (s3://..., by fsspec) is a copy of one
    here. `device` is a `probe.base.Device`; without it the CUDA device of this process, or else the CPU, counted as if
    it were a card (slow, and meant for tests).

    While one recording is going on, another call gives the same one, which ends when all of them have ended. The
    recorder never breaks the job: what goes wrong in it is said once on stderr. Raises UsageError where PyTorch is not
    installed, and for an argument that makes no sense.
    """
    from oomph.recording.watching import check_models

    _check(longest, evaluation, steps, every)
    exports = _places(exports)
    if device is not None and not hasattr(device, "begin"):
        raise UsageError(f"device is a {type(device).__name__}: it is to be an oomph.probe.base.Device.")
    while _current and not _current[-1].active:
        _current.pop()
    if _current:
        current = _current[-1]
        current.watch(model, optimizer)
        return current.join()
    check_models(model)
    recording = _make(run_dir, name, every, device, tuple(listeners), tuple(exports))
    try:
        recording.begin(name, tags or {}, HISTORY if history is True else int(history))
    except Exception as error:  # noqa: BLE001 - never the job's business
        recording.give_up(error)
        return recording
    _current.append(recording)
    _latest[:] = [recording]
    recording.watch(model, optimizer)
    _fingerprint(recording, model, arguments, data)
    if warn:
        from oomph.recording.forecast import Forecast

        recording.forecast = Forecast(recording, model, longest or 0, evaluation or 0, steps or 0)
        recording.background.every(lambda: 1.0, recording.forecast.look)
        _neighbours(recording)
    return recording


def _neighbours(recording: Recording) -> None:
    """Processes beside the job are named by the first rank of each host, where its GPUs can be read."""
    if recording.device.kind != "cuda" or recording.rank.local_rank != 0:
        return
    from oomph.probe.machine import machine
    from oomph.recording import neighbours
    from oomph.recording.forecast import claim
    from oomph.recording.troubles import say

    try:
        found = machine()
        if found.source() == "none":
            return
        watch = neighbours.Neighbours(
            found,
            neighbours.job_processes(recording.rank),
            recording.add_note,
            say,
            lambda what: claim(recording, what),
        )
    except Exception as error:  # noqa: BLE001 - never the job's business
        recording.trouble(error)
        return
    recording.background.every(lambda: neighbours.EVERY_SECONDS, watch.look)


def current() -> Recording | None:
    """The recording that is going on in this process, if there is one."""
    while _current and not _current[-1].active:
        _current.pop()
    return _current[-1] if _current else None


def latest() -> Recording | None:
    """The last recording of this process, whether it goes on or has ended."""
    return _latest[-1] if _latest else None


def _check(longest: object, evaluation: object, steps: object, every: object) -> None:
    for name, value in (("longest", longest), ("evaluation", evaluation), ("steps", steps)):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 0):
            raise UsageError(f"{name}={value!r} is to be a whole number, 0 or more.")
    if isinstance(every, bool) or not isinstance(every, (int, float)) or not every >= 0:
        raise UsageError(f"every={every!r} is to be seconds, 0 or more.")


def _places(exports: Iterable[str]) -> tuple[str, ...]:
    """What `exports` names; one alone may stand without a list."""
    places = (exports,) if isinstance(exports, str) else tuple(exports)
    for place in places:
        if not isinstance(place, str):
            raise UsageError(
                f"exports has a {type(place).__name__}: each is to be text, like prometheus:FILE."
            )
    return places


def _make(
    run_dir: str | os.PathLike[str] | None,
    name: str,
    every: float,
    device: Device | None,
    listeners: tuple[Listener, ...],
    exports: tuple[str, ...],
) -> Recording:
    from oomph.recording.recorder import Recording
    from oomph.recording.troubles import Troubles
    from oomph.recording.where import not_taken, rank_of, run_directory

    rank = rank_of(os.environ)
    environment = dict(os.environ)
    url = environment.get("OOMPH_RUN_DIR", "").strip() or os.fspath(run_dir or "")
    if "://" in url and not url.startswith("file://"):
        # Records are appended, which object stores cannot: the run is recorded here and copied there.
        environment.pop("OOMPH_RUN_DIR", None)
        run_dir, exports = None, (*exports, f"copy:{url}")
    if device is None:
        from oomph.probe.choose import device as choose

        device = choose()
    elif not _torch_is_there():
        raise UsageError("PyTorch is not installed: pip install 'oomph[torch]'.")
    if exports:
        from oomph.recording.exports import listeners as exporters

        listeners = (*listeners, *exporters(exports))
    troubles = Troubles(rank.rank)
    directory: Path | None
    try:
        directory = run_directory(environment, rank, run_dir=run_dir, name=name)
        found = directory.absolute()
        directory = not_taken(found, rank)
        if directory != found:
            troubles.complain(
                f"{found} has a rank {rank.rank} that still records: this one goes to {directory}"
            )
    except (OSError, ValueError) as error:  # a name that no file system takes is a ValueError
        directory = None
        troubles.complain(f"no run directory can be made, records are kept in memory only: {error}")
    return Recording(device, rank, directory, troubles, every=float(every), listeners=listeners)


def _torch_is_there() -> bool:
    import importlib.util

    return importlib.util.find_spec("torch") is not None


def _fingerprint(recording: Recording, model: object, arguments: object, data: object) -> None:
    from oomph.recording.fingerprint import fingerprint, write

    if recording.directory is None:
        return
    header = recording.header
    try:
        rank = recording.rank
        found = fingerprint(
            model[0] if isinstance(model, (list, tuple)) and model else model,
            arguments,
            data,
            rank=rank.rank,
            whole=rank.rank == 0,
            device_name=recording.device.name,
            capacity_bytes=header.capacity_bytes if header is not None else None,
        )
        write(found, recording.directory)
    except Exception as error:  # noqa: BLE001 - never the job's business
        recording.trouble(error)
