"""What the sources of `oomph repro` are: runs, logs, traces, or jobs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from oomph.errors import InputError, OomphError
from oomph.phases import Phase

#: What `oomph runs` calls a run by its place, and addresses.
_RUN = re.compile(r"last(?:-failed)?(?:~\d+)?\Z|[a-z0-9]+://")
#: How pickles, zip and gzip files begin.
_BINARY = (b"\x80", b"PK\x03\x04", b"\x1f\x8b")
_LARGEST_REPORT = 1 << 28
_CONFIGS = (".toml", ".json", ".yaml", ".yml", ".sh")


@dataclass(frozen=True)
class Traced:
    """What a trace or a snapshot tells of its failure. `world`: the ranks, where it says them."""

    phase: Phase | None
    facts: tuple[str, ...]
    world: int | None = None


def sorted_out(
    sources: Sequence[str],
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Runs, logs, traces and jobs among the sources, in their order."""
    kinds = {name: _kind(name) for name in sources}
    runs, logs, traces, jobs = (
        tuple(name for name in sources if kinds[name] == kind) for kind in ("run", "log", "trace", "job")
    )
    return runs, logs, traces, jobs


def _kind(name: str) -> str:
    from oomph.evidence.run.read import is_run

    if name == "-":
        return "log"
    if _RUN.match(name) or is_run(name):
        return "run"
    try:
        path = Path(name).expanduser()
        if path.is_dir():
            return "job" if (path / "config.json").is_file() else "log"
        if path.is_file():
            return _kind_of_file(path)
    except (OSError, ValueError, RuntimeError):
        return "job"  # which says what is wrong with the name
    if any(letter in name for letter in "*?[") or name.endswith((".log", ".out", ".err", ".txt")):
        return "log"
    return "job" if name.endswith(_CONFIGS) or not _is_recorded(name) else "run"


def _is_recorded(name: str) -> bool:
    """Whether a run is called so. (Looking at the runs is for names that are no model's.)"""
    from oomph.job.names import model

    try:
        model(name)
    except OomphError:
        pass
    else:
        return False
    from oomph.recording.store import Store

    try:
        with Store() as store:
            store.find(name)
    except (OomphError, OSError):
        return False
    return True


def _kind_of_file(path: Path) -> str:
    with path.open("rb") as stream:
        start = stream.read(4096)
    if start.startswith(_BINARY) and path.suffix.lower() in (".pickle", ".pkl"):
        return "trace"
    if path.suffix.lower() == ".json" and _report(path) is not None:
        return "trace"
    if path.suffix.lower() in _CONFIGS:
        return "job"
    return "log"


class _Device(msgspec.Struct):
    index: int = 0
    fails_in: str | None = None


class _Trace(msgspec.Struct):
    summary: str
    command: str
    devices: list[_Device]
    shown: int = 0
    rank: int = 0
    world: int = 1


class _Report(msgspec.Struct):
    schema_version: str
    traces: list[_Trace]


def _report(path: Path) -> _Report | None:
    """What `oomph trace --format json` printed; None for other JSON."""
    try:
        if path.stat().st_size > _LARGEST_REPORT:
            return None
        return msgspec.json.decode(path.read_bytes(), type=_Report)
    except (OSError, msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError, RecursionError):
        return None


def trace(name: str) -> Traced:
    """The failure of a trace or a snapshot. Raises InputError for a file that cannot be read."""
    path = Path(name).expanduser()
    if path.suffix.lower() == ".json":
        report = _report(path)
        if report is None or not report.traces:
            raise InputError(f"{name}: has no trace")
        failed = [one for one in report.traces if any(device.fails_in for device in one.devices)]
        chosen = (failed or report.traces)[0]
        phase = next((_phase(device.fails_in) for device in chosen.devices if device.fails_in), None)
        rank = f"rank {chosen.rank} of {chosen.world}: " if chosen.world > 1 else ""
        return Traced(phase, (f"{name}, {rank}{chosen.summary}.",), chosen.world)
    return _snapshot(name)


def _phase(text: str | None) -> Phase | None:
    try:
        return Phase(text) if text else None
    except ValueError:
        return None


def _snapshot(name: str) -> Traced:
    from oomph.api import diagnosed
    from oomph.evidence.snapshot import read

    diagnosis, _, _ = diagnosed((name,))
    incident = diagnosis.incident
    traced = read(name).traced
    world = traced.world if traced is not None else None
    if incident is None:
        return Traced(None, (f"{name}: no request failed.",), world)
    return Traced(incident.phase.phase, (f"{name}: {diagnosis.summary}",), world)
