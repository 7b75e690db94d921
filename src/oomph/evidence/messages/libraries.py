"""Errors of CUDA's libraries that often are memory and never say so (NV, C1, C2, C3 and their relatives)."""

from __future__ import annotations

import re
from collections.abc import Iterable

from oomph.evidence.messages.compact import StreamText
from oomph.evidence.messages.pieces import is_raised
from oomph.evidence.model import Failure, Kind

_NVML = re.compile(
    r"NVML_SUCCESS==[^\s]{1,160}?INTERNALASSERTFAILEDat[^\s]{0,200}?CUDACachingAllocator\.cpp\"?:?(\d{1,5})"
)
#: The line of the assertion in CUDACachingAllocator.cpp -> the releases that have it there (strings of the wheels).
_NVML_LINES = {
    "1154": "2.1 or 2.10",
    "830": "2.2",
    "844": "2.3",
    "838": "2.4",
    "995": "2.5",
    "1015": "2.6",
    "1016": "2.7",
    "1131": "2.8",
    "1123": "2.9",
    "1165": "2.11",
    "1319": "2.12",
}
_LIBRARY = re.compile(
    r"(CUBLAS_STATUS_(?:ALLOC_FAILED|NOT_INITIALIZED)|CUDNN_STATUS_(?:NOT_INITIALIZED|ALLOC_FAILED|INTERNAL_ERROR)|"
    r"CUFFT_ALLOC_FAILED|CUSOLVER_STATUS_ALLOC_FAILED|CUSOLVER_STATUS_INTERNAL_ERROR(?=,whencalling`cusolver\w{0,10}Create)|"
    r"CUSPARSE_STATUS_INSUFFICIENT_RESOURCES|CUSPARSE_STATUS_ALLOC_FAILED|HIPBLAS_STATUS_ALLOC_FAILED|"
    r"rocblas_status_memory_error|miopenStatusAllocFailed)"
)
_NO_ALGORITHM = re.compile(
    r"UnabletofindavalidcuDNNalgorithmtorunconvolution|GETwasunabletofindanenginetoexecutethiscomputation"
)
_ERROR = re.compile(r"(?:Error|Exception):[^'\"`]{0,80}$")


def parse(stream: StreamText) -> Iterable[Failure]:
    """Failures that hide behind a library's status, only where they were raised."""
    text = stream.text
    if "NVML_SUCCESS" in text:
        for match in _NVML.finditer(text):
            version = _NVML_LINES.get(match[1], "")
            yield stream.failure(
                "NV_nvml_assert",
                Kind.DISGUISED,
                match.start(),
                match.end(),
                raised=is_raised(stream.before(match.start())),
                detail={"library": "nvml", "line": match[1], "torch": version},
            )
    if "_STATUS_" in text or "ALLOC_FAILED" in text or "rocblas" in text or "miopen" in text:
        for match in _LIBRARY.finditer(text):
            if not _ERROR.search(stream.lead(match.start())):
                continue
            yield stream.failure(
                _library_format(match[1]),
                Kind.DISGUISED,
                match.start(),
                match.end(),
                raised=True,
                detail={"library": _library(match[1]), "status": match[1]},
            )
    if "cuDNNalgorithm" in text or "GETwasunable" in text:
        for match in _NO_ALGORITHM.finditer(text):
            if not _ERROR.search(stream.lead(match.start())):
                continue
            yield stream.failure(
                "C3_cudnn_no_algo",
                Kind.DISGUISED,
                match.start(),
                match.end(),
                raised=True,
                detail={"library": "cuDNN", "status": "no algorithm"},
            )


def _library(status: str) -> str:
    return {"CUBLAS": "cuBLAS", "CUDNN": "cuDNN", "CUFFT": "cuFFT", "CUSOLVER": "cuSOLVER"}.get(
        status.partition("_")[0], status.partition("_")[0]
    )


def _library_format(status: str) -> str:
    if status.startswith("CUDNN"):
        return "C1_cudnn"
    if status.startswith(("CUBLAS", "HIPBLAS", "rocblas")):
        return "C2_cublas_alloc"
    return "C4_library_alloc"
