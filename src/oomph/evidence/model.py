"""What is read from files, before anybody draws a conclusion.

Positions are (document, line index): documents are numbered in the order in which they were read, lines in the order
of the file. Every fact carries its quote.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import TypeVar, cast

from oomph.units import Amount

T = TypeVar("T")


@dataclass(frozen=True)
class Quote:
    """Where a fact was read: the file as the user named it, the 1-based line, and the line's cleaned text."""

    source: str
    line: int
    text: str


@dataclass(slots=True)
class Line:
    """One line of output after cleaning: no colour codes, no launcher prefix, no trailing newline.

    `number` is the 1-based line in the file (a carriage return does not start a new number). `stream` names the
    writer when prefixes tell several writers apart ("rank3", "task2", "ray:41230"); lines of different streams may
    interleave. `rank` is the global rank if the prefix or the file's place says it. `time` is seconds since the
    epoch (or since midnight when only a clock time is printed), None when the line has none.
    """

    text: str
    number: int
    stream: str = ""
    rank: int | None = None
    time: float | None = None


@dataclass
class Document:
    """The lines of one file, one notebook or standard input.

    `gaps` are line indices at which text was left out (only the neighbourhoods of interesting places of a large
    file are kept). `rank` and `attempt` come from a per-rank layout (torchrun --log-dir) or are None.
    `notes` say what was odd about the input (truncated gzip, undecodable bytes), a sentence each. `input_notes`, on the
    first document, are those about the input as a whole, and `passed_over` the names of files that are no document.
    `damage` completes "what could be read of it: ..." ("its end
    is missing"), "" where all was read. `events` counts those of a memory snapshot, whose lines are numbered by them;
    None for text.
    """

    source: str
    lines: list[Line]
    index: int = 0
    size_bytes: int = 0
    rank: int | None = None
    attempt: int | None = None
    gaps: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()
    input_notes: tuple[str, ...] = ()
    passed_over: tuple[str, ...] = ()
    events: int | None = None
    damage: str = ""
    _quotes: dict[int, Quote] = field(default_factory=dict, repr=False, compare=False)

    def quote(self, line_index: int) -> Quote:
        """The line as a quote; one object however many facts stand on the line (it may be long)."""
        quote = self._quotes.get(line_index)
        if quote is None:
            line = self.lines[line_index]
            quote = self._quotes[line_index] = Quote(self.source, line.number, line.text.strip())
        return quote


@dataclass(frozen=True, order=True)
class Position:
    """Order in which things stand in the input: document, then line index."""

    document: int
    line: int


class Kind(str, Enum):
    """What a failure text proves, before its cause is asked."""

    DEVICE_OOM = "device_oom"  # an allocator of a device refused a request
    DEVICE_OOM_BARE = "device_oom_bare"  # a driver call failed with "out of memory"; no numbers
    DISGUISED = "disguised"  # another error that is often memory (cuDNN, cuBLAS, NVML assert, driver)
    NCCL_OOM = "nccl_oom"  # NCCL's own allocation failed
    HOST_OOM = "host_oom"  # host RAM: the CPU allocator, the kernel, Slurm, Ray
    KILLED = "killed"  # SIGKILL without a named sender
    SHM = "shm"  # /dev/shm
    MANAGED_OOM = "managed_oom"  # CUDA managed memory (bitsandbytes paged optimizers)
    UNIFIED_OOM = "unified_oom"  # Apple MPS
    NOT_MEMORY = "not_memory"  # looks like an OOM, is not


@dataclass(frozen=True)
class ProcessUse:
    """A `Process N has X memory in use` clause; `used` is None when the printed value is not a size."""

    pid: int
    used: Amount | None


@dataclass(frozen=True)
class Failure:
    """One failure text, as printed once. Equal texts of one failure are merged later (diagnose.incidents).

    `numbers` has the keys requested_bytes, capacity_bytes, free_bytes, allocated_bytes, reserved_bytes,
    unallocated_bytes, process_bytes, other_process_bytes, allowed_bytes, private_pool_bytes, and for MPS
    other_allocations_bytes; only what was printed is there. `raised` is True where the text stands as a
    Python exception ("torch.OutOfMemoryError: ..."), False inside a log line or a table.
    """

    format: str
    kind: Kind
    vendor: str
    position: Position
    end: Position
    quote: Quote
    numbers: Mapping[str, Amount] = field(default_factory=dict)
    processes: tuple[ProcessUse, ...] = ()
    device: int | None = None
    rank: int | None = None
    stream: str = ""
    raised: bool = False
    truncated: bool = False
    artefacts: tuple[str, ...] = ()  # "nvml_2_64", "process_0_bytes"
    detail: Mapping[str, str] = field(default_factory=dict)  # torch version, allocator backend, pid, ...


@dataclass(frozen=True)
class Frame:
    """One traceback frame. `code` is the source line if printed; `span` the part of it under the carets."""

    file: str
    line: int
    function: str
    code: str = ""
    span: str = ""
    position: Position = Position(0, 0)


@dataclass(frozen=True)
class Traceback:
    """Frames outermost first, whatever order the printer used, and the exception line if there is one."""

    frames: tuple[Frame, ...]
    exception: str  # "torch.OutOfMemoryError", "" when cut
    message: str  # first line of the message
    start: Position
    end: Position
    stream: str = ""
    rank: int | None = None
    style: str = "python"  # python, rich, ipython, pytest, vscode


@dataclass(frozen=True)
class MemorySample:
    """A memory figure that the job printed while it ran.

    `what` is allocated, max_allocated, reserved, max_reserved, used (of the device, e.g. nvidia-smi) or host_used.
    `step` is the training step if the line says it. `printer` names the format ("deepspeed", "torchtitan", ...).
    """

    what: str
    value: Amount
    position: Position
    quote: Quote
    step: int | None = None
    rank: int | None = None
    device: int | None = None
    total: Amount | None = None
    time: float | None = None
    printer: str = ""
    context: str = ""  # "train", "eval" or "" where the line does not say


@dataclass(frozen=True)
class GpuProcess:
    """A process on a GPU as nvidia-smi (or another tool) lists it; `used` None for N/A."""

    gpu: int
    pid: int
    name: str
    used: Amount | None
    quote: Quote


@dataclass(frozen=True)
class GpuReading:
    """One GPU at one moment as nvidia-smi prints it."""

    gpu: int
    name: str
    used: Amount | None
    total: Amount | None
    free: Amount | None
    position: Position
    quote: Quote
    time: float | None = None
    driver: str | None = None
    cuda: str | None = None


@dataclass(frozen=True)
class SummaryTable:
    """A torch.cuda.memory_summary() table or memory_stats() print: values are bytes (or counts), `what` -> Amount.

    Keys follow memory_stats(): "allocated_bytes.all.current", "reserved_bytes.all.peak", "num_ooms", ...
    """

    device: int | None
    values: Mapping[str, Amount]
    position: Position
    quote: Quote


@dataclass(frozen=True)
class ProcessExit:
    """How a process ended, as a launcher says it: exit code (negative: signal), rank, pid; `root` if the launcher
    names it the first failure. `killer` is "launcher" when the text itself says that the launcher stopped it."""

    code: int | None
    position: Position
    quote: Quote
    rank: int | None = None
    local_rank: int | None = None
    pid: int | None = None
    host: str | None = None
    root: bool = False
    killer: str = ""
    launcher: str = ""
    time: float | None = None


@dataclass(frozen=True)
class Fact:
    """Something that the log says about the job or the machine: name, value as text, quote.

    Names are those of `FACT_NAMES`; a fact may occur several times (the later one wins for settings).
    """

    name: str
    value: str
    position: Position
    quote: Quote
    rank: int | None = None


#: name -> what it means. Numbers are plain decimal integers in `value`; flags are "true"/"false".
FACT_NAMES: Mapping[str, str] = {
    "torch_version": "PyTorch's version",
    "cuda_version": "CUDA's version as torch or nvidia-smi prints it",
    "driver_version": "the NVIDIA driver's version",
    "gpu_name": "the GPU's name as printed",
    "gpu_total_bytes": "memory of the board as printed by something else than the failure",
    "platform": "windows, wsl2, linux, macos, kaggle, colab",
    "world_size": "number of ranks",
    "framework": "transformers, lightning, deepspeed, fsdp, fsdp2, ddp, megatron, torchtune, torchtitan, ...",
    "launcher": "torchrun, accelerate, deepspeed, srun, ray, spawn",
    "model": "model name or path",
    "total_params": "number of parameters",
    "trainable_params": "number of trainable parameters",
    "dtype": "fp32, fp16, bf16, 8bit, 4bit of the weights",
    "mixed_precision": "no, fp16, bf16, fp8",
    "batch_size": "micro-batch per device",
    "eval_batch_size": "evaluation batch per device",
    "accumulation": "gradient accumulation steps",
    "sequence_length": "tokens per sample (or the longest sample)",
    "vocab_size": "rows of the output layer",
    "optimizer": "optimizer's name",
    "checkpointing": "activation checkpointing on or off",
    "lora_rank": "rank of LoRA adapters",
    "quantization": "4bit, 8bit, none; as asked for",
    "zero_stage": "DeepSpeed ZeRO stage",
    "offload": "cpu or nvme offload of what",
    "alloc_conf": "PYTORCH_CUDA_ALLOC_CONF / PYTORCH_ALLOC_CONF / PYTORCH_HIP_ALLOC_CONF as set by the job",
    "memory_fraction": "set_per_process_memory_fraction",
    "engine_utilization": "gpu_memory_utilization of a co-located inference engine",
    "engine_pid": "pid of an inference engine or rollout worker named in the log",
    "rank_pid": "a pid that belongs to one of the job's ranks (value: pid)",
    "resume": "a checkpoint is being resumed (value: path or step)",
    "phase_line": "a line with which the job announces a phase (value: init, load, train, eval, generate, save)",
    "progress": "a training step's line (value: the step number if printed)",
    "success": "a line that says that the job ended well",
    "host_memory_percent": "host memory in use, percent",
    "host_limit": "memory limit of the job step (value as printed)",
    "first_step": "no optimizer step was finished before the failure (value: true)",
}


@dataclass(frozen=True)
class SnapshotFile:
    """A memory snapshot among the input, not read yet. `explicit`: named itself, not found in a directory."""

    name: str
    path: str
    size_bytes: int
    explicit: bool = True


@dataclass(frozen=True)
class Evidence:
    """All that was read. Tuples are in input order. `snapshots` are the memory snapshots that lay beside the logs;
    `recorded`: run directories are among the input, whose records are joined later."""

    documents: tuple[Document, ...]
    failures: tuple[Failure, ...] = ()
    tracebacks: tuple[Traceback, ...] = ()
    samples: tuple[MemorySample, ...] = ()
    gpus: tuple[GpuReading, ...] = ()
    gpu_processes: tuple[GpuProcess, ...] = ()
    tables: tuple[SummaryTable, ...] = ()
    exits: tuple[ProcessExit, ...] = ()
    facts: tuple[Fact, ...] = ()
    notes: tuple[str, ...] = ()
    snapshots: tuple[SnapshotFile, ...] = ()
    recorded: bool = False

    @cached_property
    def _index(self) -> Mapping[str, Mapping[int, tuple[Fact, ...]]]:
        index: dict[str, dict[int, list[Fact]]] = {}
        for fact in self.facts:
            index.setdefault(fact.name, {}).setdefault(fact.position.document, []).append(fact)
        return {
            name: {
                document: tuple(sorted(facts, key=lambda one: one.position)) for document, facts in by.items()
            }
            for name, by in index.items()
        }

    @cached_property
    def _derived(self) -> dict[object, object]:
        return {}

    def derived(self, make: Callable[[Evidence], T]) -> T:
        """What `make` builds from this evidence, built once: indexes, so that many failures in a long log do not each
        cost a walk over all of it. `make` has to be a function or class of a module (it is the key)."""
        if make not in self._derived:
            self._derived[make] = make(self)
        return cast("T", self._derived[make])

    def fact(self, name: str) -> Fact | None:
        """The last fact of this name, or None."""
        named = self.facts_named(name)
        return named[-1] if named else None

    def facts_named(self, name: str) -> tuple[Fact, ...]:
        """All facts of this name in input order."""
        by_document = self._index.get(name, {})
        return tuple(fact for document in sorted(by_document) for fact in by_document[document])

    def facts_in(self, document: int, name: str) -> tuple[Fact, ...]:
        """The facts of this name in one document, in line order."""
        return self._index.get(name, {}).get(document, ())
