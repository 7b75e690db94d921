"""What a probe reads. Sizes are bytes; None is "not known", and `Counters.missing` says why."""

from __future__ import annotations

import msgspec


class Counters(msgspec.Struct, frozen=True, omit_defaults=True):
    """The caching allocator of one device in this process, at one moment.

    The names are those of `torch.cuda.memory_stats` (allocated_bytes.all.current, reserved_bytes.all.current,
    active_bytes.all.current, requested_bytes.all.current, inactive_split_bytes.all.current, num_alloc_retries,
    num_ooms); `peak_*` are the largest since the last `Device.begin`. free and total are `cudaMemGetInfo`'s: of the
    whole card. outside: what this process has on the card beside the allocator; other_processes: what others have there
    (both only where the driver tells a process's bytes).
    """

    allocated_bytes: int = 0
    reserved_bytes: int = 0
    active_bytes: int = 0
    requested_bytes: int = 0
    inactive_split_bytes: int = 0
    peak_allocated_bytes: int = 0
    peak_reserved_bytes: int = 0
    retries: int = 0
    ooms: int = 0
    free_bytes: int | None = None
    total_bytes: int | None = None
    outside_bytes: int | None = None
    other_processes_bytes: int | None = None
    missing: str = ""


class Process(msgspec.Struct, frozen=True, omit_defaults=True):
    """A process with memory on a GPU. `used_bytes` is None where the driver does not tell (WDDM, some containers).
    `ours`: it belongs to the job that is recorded."""

    pid: int
    used_bytes: int | None = None
    name: str = ""
    ours: bool = False


class Gpu(msgspec.Struct, frozen=True, omit_defaults=True):
    """One GPU of this host. `index` is the driver's, `uuid` what stays the same whatever CUDA_VISIBLE_DEVICES says.

    A GPU that is cut into MIG devices is not there itself: each of them is, with the GPU's index and a uuid of its own.
    `missing`: what of it could not be read, and why.
    """

    index: int
    uuid: str = ""
    name: str = ""
    capacity_bytes: int | None = None
    used_bytes: int | None = None
    free_bytes: int | None = None
    utilization: int | None = None
    processes: tuple[Process, ...] = ()
    missing: str = ""


class Host(msgspec.Struct, frozen=True, omit_defaults=True):
    """This process's and this host's main memory. `rss_bytes` with the children's where `children` counts them;
    pinned: page-locked memory of this process as PyTorch's host allocator counts it (None: not told)."""

    rss_bytes: int | None = None
    pinned_bytes: int | None = None
    total_bytes: int | None = None
    available_bytes: int | None = None
    shm_free_bytes: int | None = None
    cgroup_limit_bytes: int | None = None
    children: int = 0
