"""cuBLAS's workspaces: how large, and which matrix products use cuBLASLt. From environment variables as PyTorch reads
them: aten/src/ATen/cuda/CublasHandlePool.cpp."""

from __future__ import annotations

import os
import re

from oomph.hardware.gpus import Gpu
from oomph.tracing.kernels.arguments import argument, kind, numel
from oomph.tracing.kernels.rule import Call

_DEFAULT_BYTES = 2 * 4096 * 1024 + 8 * 16 * 1024  # ":4096:2:16:8"
_LARGE_BYTES = 32 * 1024 * 1024
_LT_BYTES = 1024 * 1024
_POOL = re.compile(r":([0-9]+):([0-9]+)")


def workspace_bytes(gpu: Gpu, torch: tuple[int, int]) -> int:
    """The workspace that a cuBLAS handle gets for a stream: as CUBLAS_WORKSPACE_CONFIG says, else 8.1 MiB, or 32 MiB
    on Hopper, and on Blackwell from torch 2.12 on (pull request 175344; compute capability 11.0 from 2.14 on: 189312).
    """
    pools = _POOL.findall(os.environ.get("CUBLAS_WORKSPACE_CONFIG", ""))
    if pools:
        return sum(int(size) * 1024 * int(count) for size, count in pools)
    major, minor = gpu.capability
    large = (
        (major, minor) == (9, 0)
        or (major in (10, 12) and torch >= (2, 12))
        or (major == 11 and torch >= (2, 14))
    )
    return _LARGE_BYTES if large else _DEFAULT_BYTES


def lt_workspace_bytes() -> int:
    """cuBLASLt's own workspace before torch 2.12: CUBLASLT_WORKSPACE_SIZE in KiB, else 1 MiB."""
    text = os.environ.get("CUBLASLT_WORKSPACE_SIZE", "").strip()
    return int(text) * 1024 if text.isdecimal() else _LT_BYTES


def lt_shares(torch: tuple[int, int]) -> bool:
    """Whether cuBLASLt uses cuBLAS's workspace: from 2.12 on (pull request 175879), before that from 2.8 on where
    TORCH_CUBLASLT_UNIFIED_WORKSPACE=1 asks for it (151163)."""
    asked = os.environ.get("TORCH_CUBLASLT_UNIFIED_WORKSPACE")
    if torch >= (2, 12):
        return asked != "0"
    return torch >= (2, 8) and asked == "1"


def lt_keeps(torch: tuple[int, int]) -> bool:
    """Whether cuBLASLt keeps its own workspace once made: from 2.9 on (pull request 156495)."""
    return torch >= (2, 9)


def uses_lt(call: Call) -> bool:
    """Whether addmm takes cuBLASLt: beta 1, a one-dimensional bias as long as the result is wide, and more than one
    row and column in the second matrix (aten/src/ATen/native/cuda/Blas.cpp, addmm_out_cuda_impl)."""
    bias, second = call.args[0], call.args[2]
    return bool(
        os.environ.get("DISABLE_ADDMM_CUDA_LT") != "1"
        and bias.dim() == 1
        and argument(call, 3, "beta", 1) == 1
        and bias.is_contiguous()
        and int(bias.shape[0]) == int(second.shape[1])
        and all(int(size) > 1 for size in second.shape)
        and numel(call.args[1].shape)
        and kind(bias) in ("float64", "float32", "float16", "bfloat16")
    )


def is_there(call: Call, what: str) -> bool:
    """Whether this thread and stream have `what` already."""
    return ("workspace", what, call.device, call.thread, call.stream) in call.memory


def first_here(call: Call, what: str) -> bool:
    """Whether this call is the first of its thread and stream to need `what`; from then on it is not."""
    key = ("workspace", what, call.device, call.thread, call.stream)
    if key in call.memory:
        return False
    call.memory[key] = True
    return True
