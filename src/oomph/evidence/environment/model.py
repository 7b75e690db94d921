"""What is known of a machine and of the surroundings of a job on it, before anybody draws a conclusion.

It is read from the live machine (`oomph.evidence.environment.live`) or from what people paste of another one
(`oomph.evidence.environment.read`), into the same type. Every value is a `Told` with its quote. What nobody told is
None, or an empty tuple where `Environment.told` does not name the field: an empty list that was told ("no RDMA device")
is a fact, one that was not is none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from oomph.evidence.model import Quote

T = TypeVar("T")


@dataclass(frozen=True)
class Told(Generic[T]):
    """A value, and where it was read. For the live machine, the quote's source is what was asked (/proc/meminfo, NVML)
    and its line 0."""

    value: T
    quote: Quote


@dataclass(frozen=True)
class CardProcess:
    """A process with memory on a GPU. `used_bytes` is None where the driver does not tell. `kind` is as nvidia-smi
    prints it (C, G, C+G, M+C); `alive` is False where the process was looked for and is not there, or is a zombie
    ("defunct"); None where that is not known. `ours`: it belongs to the job that is asked about."""

    pid: int
    used_bytes: int | None
    name: str
    kind: str
    quote: Quote
    alive: bool | None = None
    ours: bool = False


@dataclass(frozen=True)
class MigDevice:
    """A MIG device: its profile ("1g.10gb"), its memory and uuid where they are told."""

    profile: str = ""
    total_bytes: int | None = None
    uuid: str = ""


@dataclass(frozen=True)
class Card:
    """One GPU as the driver describes it. Sizes are bytes; None is "not told".

    `index` is the driver's; None where a text names a card without it. `reserved_bytes` is what the driver keeps for
    itself ("Reserved" in nvidia-smi -q). `processes` is None where no list of processes was told (an empty tuple: the
    list was there and empty). `hidden`: why a list of processes proves nothing (a container), "" where it does.
    `ecc_uncorrected` counts double-bit or uncorrectable errors, the larger of volatile and aggregate; `remap_pending`
    and `remap_failed` are row remapping's, or retired pages'. `compute_mode` is as printed ("Default",
    "Exclusive_Process", "Prohibited"). `driver_model` is Windows' (WDDM, TCC). `capability` is (8, 0) where it is told.
    """

    quote: Quote
    index: int | None = None
    uuid: str = ""
    bus_id: str = ""
    name: str = ""
    capability: tuple[int, int] | None = None
    total_bytes: int | None = None
    used_bytes: int | None = None
    free_bytes: int | None = None
    reserved_bytes: int | None = None
    utilization: int | None = None
    persistence: bool | None = None
    mig: bool | None = None
    mig_devices: tuple[MigDevice, ...] = ()
    ecc: bool | None = None
    ecc_uncorrected: int | None = None
    remap_pending: bool | None = None
    remap_failed: bool | None = None
    compute_mode: str = ""
    display_active: bool | None = None
    driver_model: str = ""
    processes: tuple[CardProcess, ...] | None = None
    hidden: str = ""


@dataclass(frozen=True)
class TorchBuild:
    """The installed (or to be installed) PyTorch. `version` is "2.3.1", `local` the part behind "+" ("cu121", "cpu",
    "rocm6.0", ""), `cuda` the toolkit it was built with ("12.1"), "" where not told and None where it is a build
    without CUDA. `architectures` are those it has code for ("sm_80", "compute_90"), empty where not told.
    `cudnn` and `nccl` are the versions that it says it uses. `wanted`: it is a line of an image or a requirements file,
    not an installation that was seen."""

    quote: Quote
    version: str = ""
    local: str = ""
    cuda: str | None = ""
    hip: str = ""
    architectures: tuple[str, ...] = ()
    cudnn: str = ""
    nccl: str = ""
    available: bool | None = None
    wanted: bool = False


@dataclass(frozen=True)
class Variable:
    """An environment variable. `value` is None where the text does not say what it becomes ("${MASTER}"). `scope` is
    "process" (a dump of env), "image" (Dockerfile ENV), "script" (an export, an inline assignment, os.environ of a
    Python file), "pod" (a manifest) or "job" (Slurm). `command`: it holds for that one command only. `rank`: the rank
    whose dump it is, where several were given."""

    name: str
    value: str | None
    scope: str
    quote: Quote
    rank: int | None = None
    command: bool = False


@dataclass(frozen=True)
class Interface:
    """A network interface. `up` is None where not told; `addresses` without their prefix lengths. `kind` is
    "ethernet", "loopback", "infiniband" (IPoIB), "virtual" (docker0, veth, bridges) or ""."""

    name: str
    up: bool | None = None
    addresses: tuple[str, ...] = ()
    kind: str = ""


@dataclass(frozen=True)
class Launch:
    """What starts the processes, on one node: counts are None where not told. `processes` is how many start (torchrun
    --nproc-per-node, ntasks-per-node, accelerate's num_processes over num_machines); `processes_word` where that is a
    word ("auto", "gpu"). `gpus` is how many the scheduler or the container gives. `memory_bytes` is the RAM that it
    gives (0: all). `shm_bytes` is /dev/shm's size as asked for. `host_ipc`: the host's /dev/shm. `pinned_limit_bytes`
    is a memlock limit as asked for (-1: none)."""

    quote: Quote
    program: str = ""
    nodes: int | None = None
    processes: int | None = None
    processes_word: str = ""
    gpus: int | None = None
    memory_bytes: int | None = None
    shm_bytes: int | None = None
    host_ipc: bool | None = None
    pinned_limit_bytes: int | None = None


@dataclass(frozen=True)
class Xid:
    """An Xid of the kernel log. `bus_id` as printed, `time` as printed, `pid` and `process` where told."""

    number: int
    quote: Quote
    bus_id: str = ""
    pid: int | None = None
    process: str = ""
    time: str = ""


@dataclass(frozen=True)
class RankDevice:
    """Which device a rank uses, as something printed it: its global rank, its local rank, the device's index as that
    process sees it, its uuid or its bus id."""

    rank: int
    quote: Quote
    local_rank: int | None = None
    device: int | None = None
    uuid: str = ""
    bus_id: str = ""
    host: str = ""


@dataclass(frozen=True)
class HostFacts:
    """Main memory and limits; bytes. `memlock_bytes` is the limit of page-locked memory (-1: none). `shm_bytes` is the
    size of /dev/shm, `shm_free_bytes` what of it is free. `cgroup_limit_bytes` is what the container or the job may
    use. `vcpus` are the machine's (or the container's, where only that is told)."""

    ram_bytes: Told[int] | None = None
    available_bytes: Told[int] | None = None
    swap_bytes: Told[int] | None = None
    swap_free_bytes: Told[int] | None = None
    shm_bytes: Told[int] | None = None
    shm_free_bytes: Told[int] | None = None
    cgroup_limit_bytes: Told[int] | None = None
    memlock_bytes: Told[int] | None = None
    vcpus: Told[int] | None = None


@dataclass(frozen=True)
class Environment:
    """One machine, and what runs or is to run there.

    `live`: it is this machine, asked just now. `told` names the fields of this class that somebody told something of,
    an empty list included ("cards", "interfaces", "rdma_devices", "xids", "variables", "launches"). `missing` says for
    a field why it could not be read ("cards": "nvidia-smi is not there"). `sources` are the documents, each with what
    it was taken for ("nvidia-smi -q", "Dockerfile"), and `passed_over` those that told nothing, with the reason.

    `drivers` are versions of the kernel driver as told by different witnesses (nvidia-smi, /proc/driver/nvidia, a
    mismatch error), `driver_libraries` those of the user-space library (libcuda, NVML) where they are told apart.
    `driver_cuda` is the highest CUDA version of the driver ("12.4"). `toolkits` are CUDA toolkits beside PyTorch's
    own: nvcc, an image's CUDA. `packages` are Python packages by normalized name (nvidia-nccl-cu12) with versions;
    `pins` what PyTorch's own metadata asks for. `images` are base images. `machine_type` is a cloud's name for the
    machine (a2-highgpu-8g, p4d.24xlarge, Standard_ND96asr_v4), `provider` "Google Cloud", "AWS", "Azure", "Lambda" or
    as DMI says. `expected_gpus` are names of the GPU that a manifest or a script expects ("nvidia-h100-80gb").
    """

    live: bool = False
    told: frozenset[str] = frozenset()
    missing: Mapping[str, str] = field(default_factory=dict)
    sources: tuple[tuple[str, str], ...] = ()
    passed_over: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()

    hostname: Told[str] | None = None
    system: Told[str] | None = None
    wsl: Told[bool] | None = None
    container: Told[str] | None = None
    provider: Told[str] | None = None
    machine_type: Told[str] | None = None
    expected_gpus: tuple[Told[str], ...] = ()

    drivers: tuple[Told[str], ...] = ()
    driver_libraries: tuple[Told[str], ...] = ()
    driver_cuda: Told[str] | None = None
    toolkits: tuple[Told[str], ...] = ()
    images: tuple[Told[str], ...] = ()
    torch: tuple[TorchBuild, ...] = ()
    packages: Mapping[str, tuple[Told[str], ...]] = field(default_factory=dict)
    pins: Mapping[str, Told[str]] = field(default_factory=dict)

    cards: tuple[Card, ...] = ()
    xids: tuple[Xid, ...] = ()
    errors: tuple[Quote, ...] = ()
    rank_devices: tuple[RankDevice, ...] = ()

    variables: tuple[Variable, ...] = ()
    launches: tuple[Launch, ...] = ()
    interfaces: tuple[Interface, ...] = ()
    rdma_devices: tuple[str, ...] = ()
    host: HostFacts = field(default_factory=HostFacts)

    def tells(self, name: str) -> bool:
        """Whether the field was told, be it empty."""
        return name in self.told or bool(getattr(self, name))

    def all_of(self, name: str) -> tuple[Variable, ...]:
        """Every definition of a variable, in the order in which they were read."""
        return tuple(one for one in self.variables if one.name == name)

    def variable(self, name: str) -> Variable | None:
        """The definition that counts: a process's own before a script's, a pod's and an image's; else the last."""
        found = self.all_of(name)
        order = {"process": 4, "script": 3, "job": 2, "pod": 2, "image": 1}
        return max(reversed(found), key=lambda one: order.get(one.scope, 0), default=None)

    @property
    def driver(self) -> Told[str] | None:
        """The kernel driver's version, where one was told."""
        return self.drivers[0] if self.drivers else None
