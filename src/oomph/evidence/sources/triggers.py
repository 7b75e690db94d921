"""Which texts make the neighbourhood of a place in a large file worth keeping, and how much of it.

At most 64 literals of at least four bytes: beyond either the automaton's fast path ends (see
docs/decisions/0002-scanning-large-logs.md). Where both spellings occur the capital is left off ("ut of memory"). They
only say where to look closely; what a text means is decided by the parsers, from the text that is kept.
"""

from __future__ import annotations

from dataclasses import dataclass

KIB = 1 << 10


@dataclass(frozen=True)
class Window:
    """How much is kept around a hit, in bytes, and how many hits of one literal get that much.

    The `first` and the `last` places of a literal are kept with their windows; up to `middle` places between them
    keep `MIDDLE_BYTES` on either side. Hits closer together than the window share it, up to `longest`. `rank` orders
    what is given up when a file has more interesting places than it may keep: the highest goes first. After `hot`
    hits a literal is no longer searched for.
    """

    name: str
    rank: int
    before: int
    after: int
    first: int
    last: int
    longest: int
    middle: int = 0
    hot: int = 20_000


#: Kept on either side of a failure that is neither among the first nor among the last.
MIDDLE_BYTES = 3 * KIB

FAILURE = Window("failure", 1, 128 * KIB, 16 * KIB, 4, 8, 512 * KIB, middle=200, hot=1_000_000)
SUSPECT = Window("suspect", 2, 64 * KIB, 16 * KIB, 2, 4, 128 * KIB, middle=20, hot=200_000)
TRACEBACK = Window("traceback", 3, 2 * KIB, 48 * KIB, 4, 8, 256 * KIB, middle=20, hot=200_000)
LAUNCHER = Window("launcher", 3, 8 * KIB, 32 * KIB, 2, 4, 128 * KIB)
TABLE = Window("table", 4, 4 * KIB, 16 * KIB, 2, 4, 64 * KIB)
FACT = Window("fact", 5, 2 * KIB, 12 * KIB, 2, 2, 32 * KIB)
PHASE = Window("phase", 5, KIB, 2 * KIB, 4, 8, 8 * KIB)
METRIC = Window("metric", 6, KIB, KIB, 8, 16, 4 * KIB)
CONSEQUENCE = Window("consequence", 6, 4 * KIB, 8 * KIB, 2, 2, 32 * KIB)

_LITERALS: tuple[tuple[Window, tuple[bytes, ...]], ...] = (
    (
        FAILURE,
        (
            b"ut of memory",
            b"OutOfMemory",
            b"ried to allocate",
            b"exceed allowed memory",
            b"preemptively rejected",
            b"OUT_OF_",
        ),
    ),
    (
        SUSPECT,
        (
            b"ut Of Memory",
            b"ut-of-memory",
            b"INTERNAL ASSERT",
            b"CUDNN_STATUS_",
            b"CUBLAS_STATUS_",
            b"_ALLOC_FAILED",
            b"cuDNN algorithm",
            b"Failed to CUDA",
            b"NCCL WARN",
            b"allocate memory",
            b"not enough memory",
            b"MemoryError",
            b"bad_alloc",
            b"SIGKILL",
            b"oom-kill",
            b"oom_kill",
            b"OOMKill",
            b" OOM",
            b"Killed",
            b"Bus error",
            b"shared memory",
            b"CUDA error",
            b"CUDA Error",
            b"HIP error",
            b"cudaError",
            b"RuntimeError",
        ),
    ),
    (TRACEBACK, (b"Traceback (most", b"Fatal Python", b"terminate called", b"Exception has occ")),
    (
        LAUNCHER,
        (
            b"ChildFailedError",
            b"Root Cause",
            b"xitcode",
            b"xit code",
            b"xit status",
            b"return code",
            b"slurmstepd",
            b"srun: error",
            b"SIGTERM",
            b"CalledProcessError",
        ),
    ),
    (TABLE, (b"memory summary", b"NVIDIA-SMI", b"memory.used", b"allocated_bytes")),
    (
        FACT,
        (b"ALLOC_CONF", b"TrainingArguments", b"rainable param", b"DeepSpeedEngine", b"gpu_memory_util"),
    ),
    (PHASE, (b"***** Running", b"Resum", b"resum", b"heckpoint", b"Evaluat", b"Validat")),
    (METRIC, (b"Max_MA",)),
    (CONSEQUENCE, (b"Watchdog", b"Connection ")),
)

#: Every literal with its window. Order matters only where one begins with another.
TRIGGERS: tuple[tuple[bytes, Window], ...] = tuple(
    (literal, window) for window, literals in _LITERALS for literal in literals
)
#: Names of the windows that by themselves say that a file is a job's output (used for files that look binary).
DECISIVE = frozenset({"failure", "traceback"})
