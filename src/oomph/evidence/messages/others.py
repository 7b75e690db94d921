"""Shared memory (S1), bitsandbytes' managed memory (B1), Triton's shared memory (T1), Accelerate's batch finder."""

from __future__ import annotations

import re
from collections.abc import Iterable

from oomph.evidence.messages.compact import StreamText
from oomph.evidence.messages.pieces import is_raised, mention
from oomph.evidence.model import Failure, Kind

_BUS = re.compile(
    r"DataLoaderworker\(pids?\(?s?\)?(\d{1,10})\)iskilledbysignal:Buserror|"
    r"Unexpectedbuserrorencounteredinworker|"
    r"unableto(?:allocatesharedmemory\(shm\)forfile|mmap\d{1,15}bytesfromfile)<?/?[\w./-]{0,80}>?:"
    r"(?:Nospaceleftondevice|Cannotallocatememory)|"
    r"unabletoopensharedmemoryobject<?/?[\w./-]{0,80}>?inread-writemode|"
    r"unabletowritetofile</torch_[\w./-]{0,80}>:Nospaceleftondevice|failedtoextend/dev/shm/nccl-\w{1,20}|"
    r"Nospaceleftondevice.{0,60}?/dev/shm|/dev/shm/\S{0,80}?:?Nospaceleftondevice"
)
#: A bus error that a launcher or a shell reports. Alone it proves nothing; a full /dev/shm beside it does.
_SIGBUS = re.compile(r"Signal7\(SIGBUS\)receivedbyPID(\d{1,10})|line\d{1,6}:(\d{1,10})Buserror")
_FULL_SHM = re.compile(r"100%\s*/dev/shm")
_TABLE_RANK = re.compile(r"rank:(\d{1,6})\(local_rank")
_BITSANDBYTES = re.compile(
    r"Error(outofmemory|operationnotsupported)atline(\d{1,6})infile(\S{0,200}?pythonInterface\.\w{1,4})"
)
_TRITON = re.compile(r"OutOfResources:outofresource:(\w+),Required:(\d{1,12}),Hardwarelimit:(\d{1,12})")
_FINDER = re.compile(r"Noexecutablebatchsizefound,reachedzero")


def parse(stream: StreamText) -> Iterable[Failure]:
    """Failures that are not the device allocator's."""
    text = stream.text
    if "erro" in text or "Nospace" in text or "sharedmemory" in text or "extend" in text:
        for match in _BUS.finditer(text):
            before = stream.before(match.start())
            if mention(before) and not is_raised(before):
                continue
            detail = {"pid": match[1]} if match[1] else {}
            yield stream.failure(
                "S1_shm_bus_error",
                Kind.SHM,
                match.start(),
                match.end(),
                raised=is_raised(before),
                detail=detail,
            )
    if "SIGBUS" in text or "Buserror" in text:
        yield from _bus_error(stream)
    if "pythonInterface" in text:
        for match in _BITSANDBYTES.finditer(text):
            oom = match[1] == "outofmemory"
            yield stream.failure(
                "B1_bnb",
                Kind.MANAGED_OOM if oom else Kind.NOT_MEMORY,
                match.start(),
                match.end(),
                raised=True,
                detail={"what": "bitsandbytes managed memory", "status": match[1]},
            )
    if "OutOfResources" in text:
        for match in _TRITON.finditer(text):
            yield stream.failure(
                "T1_triton_smem",
                Kind.NOT_MEMORY,
                match.start(),
                match.end(),
                raised=True,
                detail={"resource": match[1], "required": match[2], "limit": match[3]},
            )
    for match in _FINDER.finditer(text):
        before = stream.before(match.start())
        if not is_raised(before):
            continue
        yield stream.failure(
            "none_frame_only",
            Kind.DEVICE_OOM_BARE,
            match.start(),
            match.end(),
            raised=True,
            detail={"finder": "accelerate"},
        )


def _bus_error(stream: StreamText) -> Iterable[Failure]:
    full = _FULL_SHM.search(stream.text) is not None
    for match in _SIGBUS.finditer(stream.text):
        ranks = _TABLE_RANK.findall(stream.lead(match.start(), 300)) if match[1] else []
        yield stream.failure(
            "S2_bus_error",
            Kind.SHM,
            match.start(),
            match.end(),
            rank=int(ranks[-1]) if ranks else None,
            detail={"pid": match[1] or match[2], **({} if full else {"alone": "yes"})},
        )
