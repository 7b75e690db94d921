"""An allocator message that lost its numbers, and errors that say only "out of memory" (F0, F9, E0, E1, V2)."""

from __future__ import annotations

import re
from collections.abc import Iterable

from oomph.evidence.messages.compact import StreamText
from oomph.evidence.messages.pieces import SIZE, is_raised, mention, size_of
from oomph.evidence.model import Failure, Kind

_BARE = re.compile(rf"(CUDA|HIP|XPU)outofmemory\.?(?!.?Triedtoallocate(?:{SIZE}|more))")
_THC = re.compile(
    r"cudaruntimeerror\(2\):outofmemory(?:at|$)|THCudaCheckFAILfile=\S{1,300}?error=2:outofmemory"
)
_ONE_EB = re.compile(r"(?:CUDA|HIP|XPU)outofmemory\.Triedtoallocatemorethan1EBmemory")
_PREEMPTIVE = re.compile(
    r"(CUDA|HIP|XPU)outofmemory\.Allocationwaspreemptivelyrejected.{0,200}?Requestedsize:" + SIZE
)
_DRIVER_CALL = re.compile(
    r"(CUDA|HIP)error:outofmemory(?!occurred|errors?\b|\(?[sx]?\d{1,6}times)|cudaErrorMemoryAllocation|hipErrorOutOfMemory"
)
#: What may stand before a driver error that is logged rather than raised: nothing, or a log record's head.
_OPENS = re.compile(r"^$|[:\]>|]$")
_DRIVER = re.compile(r"CUDAdrivererror:(outofmemory|invalidargument)|memorymappingfailedwithOOM")
_CUMEM = re.compile(r"CUDAError:outofmemoryat(\S{0,200}?cumem_allocator\.cpp:\d+)?")
_CLASS = re.compile(r"(?<!exceptions\.)(?<!\w)OutOfMemoryError:")
_STARTS = tuple(f"{vendor}outofmemory.Triedtoallocate" for vendor in ("CUDA", "HIP", "XPU"))
_CUT = re.compile(r"Triedtoallocate[\d.,]{0,12}|Triedtoal?l?o?c?a?t?e?|Trie?d?t?o?|Tr?")


def parse(stream: StreamText) -> Iterable[Failure]:
    """Failures without the allocator's ledger."""
    text = stream.text
    words = ("outofmemory", "MemoryAllocation", "CUDAdrivererror", "OutOfMemoryError:")
    if not any(word in text for word in words):
        return
    yield from _cut_short(stream)
    yield from _one_eb(stream)
    yield from _preemptive(stream)
    yield from _bare(stream)
    for match in _THC.finditer(text):
        yield stream.failure("F0_thc", Kind.DEVICE_OOM_BARE, match.start(), match.end(), raised=True)
    yield from _driver_call(stream)
    yield from _driver(stream)
    for match in _CUMEM.finditer(text):
        engine = match[1] is not None
        yield stream.failure(
            "V2_vllm_cumem" if engine else "E0_bare_cuda_error",
            Kind.DEVICE_OOM_BARE,
            match.start(),
            match.end(),
            raised=is_raised(stream.before(match.start()))
            or match.start() == 0
            or not stream.before(match.start()),
            detail={"allocator": "vllm cumem"} if engine else {},
        )


def _cut_short(stream: StreamText) -> Iterable[Failure]:
    """The text ends within the message's first words. (A class name alone is also what `except` lines show.)"""
    for match in _CLASS.finditer(stream.text):
        rest = stream.text[match.end() : stream.line_end(match.start())]
        if not rest or not any(start.startswith(rest) for start in _STARTS):
            continue
        if any(stream.text.startswith(start.partition(".")[0], match.end()) for start in _STARTS):
            continue  # only wrapped: the message goes on in the next line
        if match.end() + len(rest) < len(stream.text) - 400 or not is_raised(stream.before(match.end())):
            continue
        yield stream.failure(
            "bare_allocator", Kind.DEVICE_OOM, match.start(), match.end(), raised=True, truncated=True
        )


def _one_eb(stream: StreamText) -> Iterable[Failure]:
    for match in _ONE_EB.finditer(stream.text):
        yield stream.failure(
            "F9_1EB",
            Kind.NOT_MEMORY,
            match.start(),
            match.end(),
            raised=is_raised(stream.before(match.start())),
        )


def _preemptive(stream: StreamText) -> Iterable[Failure]:
    for match in _PREEMPTIVE.finditer(stream.text):
        size = size_of(match, 2)
        yield stream.failure(
            "F10_preemptive",
            Kind.DEVICE_OOM,
            match.start(),
            match.end(),
            vendor=match[1].lower(),
            numbers={"requested_bytes": size} if size else {},
            raised=is_raised(stream.before(match.start())),
            detail={"cap": "per_process_memory_fraction"},
        )


def _bare(stream: StreamText) -> Iterable[Failure]:
    """Only where Python raised it, or the text ends inside it: a sentence about it is not a failure."""
    for match in _BARE.finditer(stream.text):
        before = stream.before(match.start())
        if not is_raised(before) or stream.text.startswith("Allocationwas", match.end()):
            continue
        rest = stream.text[match.end() : stream.line_end(match.start())]
        if mention(before):
            continue
        cut = _CUT.fullmatch(rest) is not None
        yield stream.failure(
            "bare_allocator",
            Kind.DEVICE_OOM,
            match.start(),
            match.end(),
            vendor=match[1].lower(),
            raised=True,
            truncated=cut,
        )


def _driver_call(stream: StreamText) -> Iterable[Failure]:
    last = -1000
    for match in _DRIVER_CALL.finditer(stream.text):
        before = stream.before(match.start())
        if match.start() - last < 600 or (mention(before) and not is_raised(before)):
            continue
        if not is_raised(before) and (match[1] is None or not _OPENS.search(before)):
            continue
        last = match.start()
        yield stream.failure(
            "E0_bare_cuda_error",
            Kind.DEVICE_OOM_BARE,
            match.start(),
            match.end(),
            vendor=(match[1] or "cuda").lower(),
            raised=is_raised(before),
        )


def _driver(stream: StreamText) -> Iterable[Failure]:
    for match in _DRIVER.finditer(stream.text):
        before = stream.before(match.start())
        if not is_raised(before):
            continue
        yield stream.failure(
            "E1_cuda_driver_error",
            Kind.DISGUISED,
            match.start(),
            match.end(),
            raised=True,
            detail={"library": "driver", "status": match[1] or "outofmemory"},
        )
