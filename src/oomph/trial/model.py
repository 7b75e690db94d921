"""Trials: what is varied, one trial's request and its result. Sizes are bytes, times seconds."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

import msgspec

#: A value that a variable takes: as it stands in a command, an environment variable or a configuration file.
Value = int | float | str


def shown(value: Value) -> str:
    """A value for people: an environment variable's empty one is none."""
    return str(value) if value != "" else "(not set)"


class Variable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What `--param` names.

    `name` is what it is called in the answer. `kind` is where it goes: "placeholder" ({name} in the command),
    "argument" (an option of the command, `target` is "--per_device_train_batch_size"), "environment" (`target` is the
    variable), "file" (`target` is PATH:dotted.key of a YAML or JSON file that the command names; a trial gets a copy).
    `values` are what may be tried, from where the job fails to the least: the first is the job's own. `ordered`:
    memory is believed not to grow along `values`, so that halving them is allowed; `why_ordered` says by what (a plan,
    the name of the variable, the user).
    """

    name: str
    kind: str
    target: str
    values: tuple[Value, ...]
    ordered: bool = False
    why_ordered: str = ""


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What one trial may use; None: as much as there is. `memory_bytes` is resident main memory of all its processes,
    `disk_bytes` what its own folder may hold, `free_disk_bytes` what has to stay free where it writes."""

    seconds: float | None = None
    memory_bytes: int | None = None
    disk_bytes: int | None = None
    free_disk_bytes: int | None = None


class TrialOutcome(str, Enum):
    """How a trial ended. Only `fits` and `oom` say anything about memory on the device.

    `fits`: the phase in question was passed on every rank (or the command ended well). `oom`: a rank ran out of device
    memory. `host_oom`: main memory ran out, or its limit was passed. `crashed`: it ended with something else.
    `communication`: NCCL, gloo or a collective's time-out, without an OOM anywhere. `hung`: the time was over, without
    the phase. `disk`: the disk, or the trial's share of it, was full. `lost`: the engine lost it (a node died).
    `cancelled`: it was stopped by the user; it does not count.
    """

    FITS = "fits"
    OOM = "oom"
    HOST_OOM = "host_oom"
    CRASHED = "crashed"
    COMMUNICATION = "communication"
    HUNG = "hung"
    DISK = "disk"
    LOST = "lost"
    CANCELLED = "cancelled"

    def __str__(self) -> str:
        return self.value

    @property
    def tells(self) -> bool:
        """Whether it says if the setting fits."""
        return self in (TrialOutcome.FITS, TrialOutcome.OOM)


class PhasePeak(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The most that one phase of one trial needed, on the rank that needed most. Of a phase in which memory ran out it
    is what was there then plus the least that the failed request was for (`failed`): a lower bound of what it needs.
    `start_bytes` is what was allocated when it began, in the occurrence that needed most above that."""

    phase: str
    allocated_bytes: int
    reserved_bytes: int | None = None
    rank: int | None = None
    failed: bool = False
    start_bytes: int | None = None


class TrialResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one trial showed. `setting` has every variable's value. `phase` and `rank`: where memory ran out first.
    `step`: how many optimizer steps were done then. `peaks`: by phase. `growth_bytes` is what stayed behind after each
    step, where several steps were recorded. `capacity_bytes`: of the device; `outside_bytes`: what of it something
    other than PyTorch's allocator held, `other_processes_bytes` included. `why` is one sentence. `directory` is the
    trial's folder: its run directory and what it printed. `known_by` is "records", "trace", "output" (what was printed)
    or "exit code". `limits`: of an end that they may have to do with, what they were."""

    number: int
    setting: Mapping[str, Value]
    outcome: TrialOutcome
    why: str
    phase: str = ""
    rank: int | None = None
    step: int | None = None
    world_size: int | None = None
    request_bytes: int | None = None
    capacity_bytes: int | None = None
    growth_bytes: int | None = None
    peaks: tuple[PhasePeak, ...] = ()
    seconds: float = 0.0
    exit_code: int | None = None
    directory: str = ""
    outside_bytes: int | None = None
    known_by: str = ""
    other_processes_bytes: int | None = None
    limits: Limits | None = None
