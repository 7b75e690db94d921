"""Host memory: the CPU allocator, the kernel, Slurm, Kubernetes, Ray, Python itself (P1, P2, K2, K3, K4, K5)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import chain

from oomph.evidence.messages.compact import StreamText
from oomph.evidence.messages.pieces import is_raised
from oomph.evidence.model import Failure, Kind
from oomph.units import Amount, amount

_CPU = re.compile(
    r"(?:DefaultCPUAllocator|CPUAllocator|alloc_cpu\.cpp:\d+\].{0,40}?):?(can'tallocatememory|notenoughmemory):"
    r"youtriedtoallocate(\d{1,19})bytes"
)
_SLURM = re.compile(
    r"Detected(\d{1,6})oom[-_]killevent|task(\d{1,6}):OutOfMemory|slurmstepd:error:Exceeded\w{0,10}memorylimit"
)
_RAY = re.compile(r"ray\.exceptions\.OutOfMemoryError|Taskwaskilledduetothenoderunninglowonmemory")
_KERNEL = re.compile(
    r"(?:Memorycgroupoutofmemory|Outofmemory):Killedprocess(\d{1,10})(?:\(([\w.:+-]{1,40})\))?|oom-kill:constraint=CONSTRAINT_"
)
_KUBERNETES = re.compile(r"OOMKilled")
_KUBERNETES_LEAD = re.compile(r"[Rr]eason[\"']?:?[\"'\[]?$|[Ss]tatus[\"']?:[\"']?$|\d/\d{1,3}$")
_NUMPY = re.compile(
    r"Unabletoallocate(\d[\d.]{0,12})([KMGT]i?B)foranarraywithshape|OSError:\[Errno12\]Cannotallocatememory"
)
#: Written so that the search is for the word; "torch.OutOfMemoryError" is another.
_MEMORY_ERROR = re.compile(r"MemoryError(?<![\w.]MemoryError)(?::|$)()()")

#: What the C++ runtime writes when operator new got nothing.
_BAD_ALLOC = re.compile(r"terminatecalledafterthrowinganinstanceof'std::bad_alloc'")
_MMAP = re.compile(r"unabletommap(\d{1,18})bytesfromfile<[^<>]{1,400}>:Cannotallocatememory")
_DENIED = re.compile(r"[\"']?[:=][\"']?(?:false|no|0|null|none)", re.IGNORECASE)
_ON_DEVICE = re.compile(r"onGPU|GPU:?\d|ResourceExhausted|CUDA|cuda")


def parse(stream: StreamText) -> Iterable[Failure]:
    """Failures of host RAM that name themselves."""
    text = stream.text
    if "youtriedtoallocate" in text:
        for match in _CPU.finditer(text):
            linux = match[1].startswith("can")
            yield stream.failure(
                "P1_cpu_allocator_linux" if linux else "P2_cpu_allocator_windows",
                Kind.HOST_OOM,
                match.start(),
                match.end(),
                numbers={"requested_bytes": Amount(int(match[2]))},
                raised=is_raised(stream.before(match.start()))
                or "enforcefail" in stream.before(match.start()),
                detail={"allocator": "cpu"},
            )
    for match in stream.matches(_SLURM, "killevent", ":OutOfMemory", "memorylimit"):
        if match[1] is not None and int(match[1]) == 0:
            continue  # "Detected 0 oom_kill events"
        yield stream.failure(
            "K2_slurm_oomkill",
            Kind.HOST_OOM,
            match.start(),
            match.end(),
            rank=int(match[2]) if match[2] else None,
            detail={"sender": "Slurm's cgroup"},
        )
    last = -1000
    for match in stream.matches(_RAY, "ray.exceptions", "runninglowonmemory"):
        if match.start() - last < 300:
            continue
        last = match.start()
        yield stream.failure(
            "K3_ray_oom", Kind.HOST_OOM, match.start(), match.end(), detail={"sender": "Ray"}
        )
    for match in stream.matches(_KERNEL, "Killedprocess", "CONSTRAINT_"):
        pid = {"pid": match[1]} if match[1] else {}
        if match[2]:
            pid["victim"] = match[2]
        yield stream.failure(
            "K4_kernel_oomkill",
            Kind.HOST_OOM,
            match.start(),
            match.end(),
            detail={"sender": "the kernel", **pid},
        )
    if "OOMKilled" in text:
        yield from _kubernetes(stream)
    yield from _python(stream)
    for match in stream.matches(_MMAP, "unabletommap"):
        if "shm/" not in match[0] and "</torch_" not in match[0]:  # those are shared memory
            yield stream.failure(
                "P6_mmap",
                Kind.HOST_OOM,
                match.start(),
                match.end(),
                numbers={"requested_bytes": Amount(int(match[1]))},
                raised=is_raised(stream.before(match.start())),
                detail={"allocator": "cpu"},
            )
    for match in stream.matches(_BAD_ALLOC, "bad_alloc"):
        yield stream.failure(
            "P5_bad_alloc", Kind.HOST_OOM, match.start(), match.end(), detail={"allocator": "C++"}
        )


def _kubernetes(stream: StreamText) -> Iterable[Failure]:
    for match in _KUBERNETES.finditer(stream.text):
        before = stream.before(match.start())
        if _DENIED.match(stream.text, match.end()):
            continue
        alone = not before and stream.line_end(match.start()) - match.end() <= 12
        if not alone and not _KUBERNETES_LEAD.search(before):
            continue
        if "oom_kill" in stream.lead(match.start(), 400) or "oom-kill" in stream.lead(match.start(), 400):
            continue  # Slurm's own line, told already
        yield stream.failure(
            "K5_kubernetes_oomkilled",
            Kind.HOST_OOM,
            match.start(),
            match.end(),
            detail={"sender": "Kubernetes (the container's memory limit)"},
        )


def _python(stream: StreamText) -> Iterable[Failure]:
    found = (
        stream.matches(_NUMPY, "Unabletoallocate", "[Errno12]"),
        stream.matches(_MEMORY_ERROR, "MemoryError"),
    )
    for match in chain.from_iterable(found):
        before = stream.before(match.start())
        bare = match[0].startswith(("MemoryError", "OSError"))
        if not (is_raised(before) or (bare and len(before) <= 1)):
            continue
        if _ON_DEVICE.search(stream.text, match.end(), match.end() + 700):
            continue  # another framework's error about a GPU under Python's class
        size = amount(match[1].rstrip("."), match[2]) if match[1] else None
        yield stream.failure(
            "P3_python_memoryerror",
            Kind.HOST_OOM,
            match.start(),
            match.end(),
            numbers={"requested_bytes": size} if size is not None else {},
            raised=True,
            detail={"allocator": "cpu"},
        )
