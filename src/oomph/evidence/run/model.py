"""The records of a run directory, and its layout. docs/runs.md describes both; `VERSION` counts their changes.

    RUN/
      run.json                    `Run`: written once, by whoever comes first
      ranks/rank-00003.jsonl      one record a line, appended: `Header`, then the others as they happen
      ranks/rank-00003.now        `Now`: what the rank is doing, written over at each boundary; kill -9 leaves it
      ranks/rank-00003.out|.err   what the rank printed (`oomph record -- CMD`, where lines say whose they are)
      job.out|.err                all that the command printed; of another host's command job-HOST.out, end-HOST.json
      oom/rank-00003/             of a failed request: snapshot.pickle, summary.txt, stats.json, oom.json, traceback.txt
      fingerprint/rank-00003.json `Fingerprint`
      gpus/HOST.jsonl             `GpuSample`s of `oomph record -- CMD`
      end.json                    `RunEnd`: the command's exit code; missing: it is running, or was killed

Each file has one writer, so that no lock is needed on a shared folder. Times are seconds since the epoch (`time`), and
seconds of a clock that never jumps (`clock`), which alone orders a rank's records. Unknown fields are ignored and
unknown records passed over, so that an older oomph reads what a newer one wrote.
"""

from __future__ import annotations

import msgspec

from oomph.phases import Phase
from oomph.probe.model import Counters, Gpu, Host

VERSION = 1
RUN, END = "run.json", "end.json"
RANKS, OOM, FINGERPRINT, GPUS = "ranks", "oom", "fingerprint", "gpus"


def rank_name(rank: int) -> str:
    """The name of a rank's files, without an ending."""
    return f"rank-{rank:05d}"


class Run(msgspec.Struct, frozen=True, omit_defaults=True):
    """The run as a whole. `id` is unique; `command` as typed ("" where a script began to record by itself)."""

    version: int
    id: str
    started: float
    command: tuple[str, ...] = ()
    directory: str = ""
    host: str = ""
    world_size: int | None = None
    oomph: str = ""
    name: str = ""
    tags: dict[str, str] = {}


class Header(msgspec.Struct, frozen=True, tag="header", omit_defaults=True):
    """First line of a rank's file; one more for each time that the process begins anew (`attempt`)."""

    version: int
    rank: int
    world_size: int
    local_rank: int
    pid: int
    host: str
    time: float
    clock: float
    attempt: int = 0
    device: str = ""
    device_index: int | None = None
    capacity_bytes: int | None = None
    #: What of the recorder's promises does not hold here, a sentence each (peaks that the script reads, ...).
    limits: tuple[str, ...] = ()


class PhaseRecord(msgspec.Struct, frozen=True, tag="phase", omit_defaults=True):
    """A phase that has ended. `step` counts optimizer steps from 0 (-1: before the first); a phase that occurs several
    times in a step (micro-batches) has `times` > 1 and its largest peak. `counters` are those at its end, with the
    peaks within it; `start_allocated_bytes` what was alive when it began. `where`: the user's name for it, or the
    module. `batch`: shapes of the batch's tensors by name."""

    phase: Phase
    step: int
    time: float
    clock: float
    seconds: float
    counters: Counters
    start_allocated_bytes: int = 0
    times: int = 1
    where: str = ""
    host: Host | None = None
    batch: dict[str, tuple[int, ...]] = {}
    #: The phase ended by an exception of this name ("OutOfMemoryError").
    raised: str = ""


class StepRecord(msgspec.Struct, frozen=True, tag="step", omit_defaults=True):
    """An optimizer step that has completed. `batch`: the longest of the step. After the first fifty steps not every
    step is recorded (docs/runs.md): `step` counts, the number of records does not."""

    step: int
    time: float
    clock: float
    seconds: float
    counters: Counters
    batch: dict[str, tuple[int, ...]] = {}


class OomRecord(msgspec.Struct, frozen=True, tag="oom", omit_defaults=True):
    """A request that failed. `files`: names below oom/rank-N/; `caught`: the script went on. Written when the request
    fails, and again when more is known (the exception's message, that it was caught): of several with the same `clock`
    the last one counts."""

    phase: Phase
    step: int
    time: float
    clock: float
    message: str
    request_bytes: int | None
    counters: Counters
    where: str = ""
    batch: dict[str, tuple[int, ...]] = {}
    files: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    caught: bool = False


class Note(msgspec.Struct, frozen=True, tag="note", omit_defaults=True):
    """Something that was noticed while the run went on. `code`: warning.batch, warning.eval, warning.growth,
    warning.save, neighbour, watchdog.failed (another rank failed, `about` is its rank), watchdog.silent, lost (records
    that could not be written), clock (the wall clock jumped). `numbers`: bytes by name."""

    code: str
    text: str
    time: float
    clock: float
    phase: Phase = Phase.UNKNOWN
    step: int = -1
    about: int | None = None
    numbers: dict[str, int] = {}


class End(msgspec.Struct, frozen=True, tag="end", omit_defaults=True):
    """The rank ended in order: `outcome` is "completed", "oom", "exception" or "interrupted". A rank's file without it
    was killed, or is running."""

    outcome: str
    time: float
    clock: float
    error: str = ""
    records_lost: int = 0


Record = Header | PhaseRecord | StepRecord | OomRecord | Note | End


class Now(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a rank is doing: the phase that has begun (and, where `over`, has ended with nothing begun since), since
    when. One line of JSON, padded with spaces."""

    phase: Phase
    step: int
    time: float
    clock: float
    pid: int = 0
    where: str = ""
    over: bool = False
    allocated_bytes: int = 0


class GpuSample(msgspec.Struct, frozen=True, omit_defaults=True):
    """All GPUs of a host at one moment, seen from outside. `source`: "nvml" or "nvidia-smi"."""

    time: float
    clock: float
    gpus: tuple[Gpu, ...] = ()
    host: Host | None = None
    source: str = ""


class Fingerprint(msgspec.Struct, frozen=True, omit_defaults=True):
    """What decides how much memory a run takes, to be compared with another run's. Flat: dotted names
    ("versions.torch", "gpu.name", "environment.PYTORCH_CUDA_ALLOC_CONF", "arguments.per_device_train_batch_size",
    "git.commit", "git.dirty", "model.id", "model.weights", "data.fingerprint", "seed", "machine.type") with values as
    text; never a secret: environment variables by an allow-list. `missing`: what could not be learned, and why."""

    version: int
    rank: int
    values: dict[str, str] = {}
    missing: dict[str, str] = {}


class RunEnd(msgspec.Struct, frozen=True, omit_defaults=True):
    """How the command ended, as its parent saw it."""

    time: float
    exit_code: int
    signal: int | None = None
    seconds: float = 0.0
