"""NCCL's own allocations that failed (N1). Source: the WARN macros in nccl/src/include/alloc.h and checks.h."""

from __future__ import annotations

import re
from collections.abc import Iterable

from oomph.evidence.messages.compact import StreamText
from oomph.evidence.model import Failure, Kind
from oomph.units import Amount

_OOM = re.compile(r"(?:NCCLWARN(?:\[\w+\])?|Lasterror:)(?:Cuda|CUDA|HIP|Hip)failure2?'outofmemory'")
_CALLOC = re.compile(
    r"(?:NCCLWARN|Lasterror:)Failedto(?:CUDA|HIP|Cuda)(?:calloc|hostalloc|malloc)(?:async)?(\d{1,15})?(?:bytes)?"
)


def parse(stream: StreamText) -> Iterable[Failure]:
    """One Failure per WARN line; that they belong together is found out later."""
    if "failure" not in stream.text and "Failedto" not in stream.text:
        return
    for match in _OOM.finditer(stream.text):
        yield stream.failure(
            "N1_nccl_warn", Kind.NCCL_OOM, match.start(), match.end(), vendor=_vendor(match[0])
        )
    for match in _CALLOC.finditer(stream.text):
        numbers = {"requested_bytes": Amount(int(match[1]))} if match[1] else {}
        yield stream.failure(
            "N1_nccl_warn",
            Kind.NCCL_OOM,
            match.start(),
            match.end(),
            vendor=_vendor(match[0]),
            numbers=numbers,
        )


def _vendor(text: str) -> str:
    return "hip" if "HIP" in text or "Hip" in text else "cuda"
