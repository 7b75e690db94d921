"""Other libraries on the same card: what they print when they got no memory."""

from __future__ import annotations

import pytest

from oomph.evidence.model import Kind
from tests.evidence.messages.read import numbers, read

ERRORS = [
    (
        "CuPy",
        (
            "cupy.cuda.memory.OutOfMemoryError: Out of memory allocating 12,884,901,888 bytes (allocated so far: 1,024 "
            "bytes)."
        ),
        12_884_901_888,
    ),
    (
        "faiss",
        (
            "RuntimeError: Error in virtual void* faiss::gpu::StandardGpuResourcesImpl::allocMemory(const "
            "faiss::gpu::AllocRequest&) at StandardGpuResources.cpp:452: Error: 'err == cudaSuccess' failed: "
            "StandardGpuResources: alloc fail type FlatData dev 0 space Device stream 0x55 size 30720000000 bytes "
            "(cudaMalloc error out of memory [2])"
        ),
        30_720_000_000,
    ),
    (
        "a library on Numba's or the driver's interface",
        "[2] Call to cuMemAlloc results in CUDA_ERROR_OUT_OF_MEMORY",
        None,
    ),
    (
        "RMM",
        "MemoryError: std::bad_alloc: out_of_memory: CUDA error (failed to allocate 99 bytes) at: x.hpp",
        None,
    ),
    (
        "ONNX Runtime",
        "RuntimeException: Failed to allocate memory for requested buffer of size 4294967296",
        4_294_967_296,
    ),
]


@pytest.mark.parametrize(("library", "line", "request_bytes"), ERRORS, ids=[error[0] for error in ERRORS])
def test_the_library_and_its_request(library: str, line: str, request_bytes: int | None):
    (failure,) = [one for one in read(f"step 3 loss 1.0\n{line}\n") if one.kind is Kind.DISGUISED]
    assert failure.detail["library"] == library
    assert numbers(failure) == ({"requested_bytes": request_bytes} if request_bytes else {})


XLA = "XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 6710886400 bytes."


def test_a_job_of_another_framework_is_not_a_pytorch_job():
    assert read(f"step 3 loss 1.0\n{XLA}\n") == []


def test_but_beside_pytorch_it_is_on_the_same_card():
    (failure,) = read(f"torch 2.9.1\n{XLA}\n")
    assert failure.detail["library"] == "XLA"
    assert numbers(failure) == {"requested_bytes": 6_710_886_400}
