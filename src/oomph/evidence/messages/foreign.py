"""Other libraries that take memory from the same card and say when they got none (G1): CuPy, Numba, PyCUDA, faiss, RMM,
JAX/XLA, TensorFlow, ONNX Runtime, TensorRT.

PyTorch's allocator sees nothing of them, so no size but the request is known. The texts are those of the libraries'
sources; white space is left out (see compact.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from oomph.evidence.messages.compact import StreamText
from oomph.evidence.messages.pieces import is_raised, mention
from oomph.evidence.model import Failure, Kind
from oomph.units import Amount

#: (library, a literal that has to be there, pattern; group 1, where there is one, is the request in bytes)
_TEXTS = (
    (
        "Level Zero",
        "ERROR_OUT_OF_",
        re.compile(r"(?:UR_RESULT|PI|ZE_RESULT)_ERROR_OUT_OF_(?:DEVICE_MEMORY|RESOURCES)"),
    ),
    (
        "CuPy",
        "Outofmemoryallocating",
        re.compile(r"Outofmemoryallocating([\d,]{1,25})bytes\(allocatedsofar"),
    ),
    (
        "faiss",
        "allocfailtype",
        re.compile(r"StandardGpuResources:allocfailtype[^\n]{0,80}?size(\d{1,18})bytes"),
    ),
    (
        "a library on Numba's or the driver's interface",
        "cuMem",
        re.compile(r"Callto\w{1,40}resultsinCUDA_ERROR_OUT_OF_MEMORY|cuMemAlloc\w{0,20}failed:outofmemory"),
    ),
    (
        "XLA",
        "RESOURCE_EXHAUSTED",
        re.compile(r"RESOURCE_EXHAUSTED:Outofmemory(?:while)?tryingtoallocate(\d{1,18})bytes"),
    ),
    ("TensorFlow", "OOMwhenallocating", re.compile(r"OOMwhenallocatingtensorwithshape")),
    ("RMM", "out_of_memory:", re.compile(r"std::bad_alloc:out_of_memory:(?:CUDA|RMM|Maximum)")),
    (
        "ONNX Runtime",
        "requestedbuffer",
        re.compile(r"Failedtoallocatememoryforrequestedbufferofsize(\d{1,18})"),
    ),
    ("TensorRT", "Cudafailure:", re.compile(r"\[TRT\].{0,80}?Cudafailure:outofmemory", re.IGNORECASE)),
)

#: Frameworks of their own: a job of theirs is not a PyTorch job, unless PyTorch shares it.
_FRAMEWORKS = frozenset({"XLA", "TensorFlow"})


def parse(stream: StreamText) -> Iterable[Failure]:
    """One Failure for each error text; a text that is talked about counts for nothing."""
    for library, literal, pattern in _TEXTS:
        if literal not in stream.text:
            continue
        last = -1000
        for match in pattern.finditer(stream.text):
            before = stream.before(match.start())
            if library in _FRAMEWORKS and not _mentions_torch(stream):
                return
            if match.start() - last < 200 or mention(before) == "prose":
                continue
            last = match.start()
            digits = match[1].replace(",", "") if match.lastindex else ""
            numbers = {"requested_bytes": Amount(int(digits))} if digits.isdigit() else {}
            yield stream.failure(
                "G1_other_library",
                Kind.DISGUISED,
                match.start(),
                match.end(),
                numbers=numbers,
                raised=is_raised(before),
                detail={"library": library, "status": "outofmemory"},
            )


def _mentions_torch(stream: StreamText) -> bool:
    return "torch" in stream.text or any("torch" in line.text for line in stream.document.lines)
