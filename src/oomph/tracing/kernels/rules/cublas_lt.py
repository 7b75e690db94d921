"""cuBLASLt's workspace, for addmm with a bias."""

from __future__ import annotations

from oomph.tracing.kernels.blas import (
    first_here,
    lt_keeps,
    lt_shares,
    lt_workspace_bytes,
    uses_lt,
    workspace_bytes,
)
from oomph.tracing.kernels.rule import Call, Effect, Give, Keep, Output, Step, Take


class CublasLt:
    """1 MiB: taken for each call up to torch 2.8, kept per thread and stream from 2.9 on, none of its own from 2.12
    on. Asking for cuBLASLt's handle makes cuBLAS's workspace too, where it is not there yet: before 2.9 in between."""

    name = "cublas_lt"
    operators = ("aten.addmm", "aten._addmm_activation")
    evidence = (
        "aten/src/ATen/cuda/CUDABlas.cpp (gemm_and_bias), CublasHandlePool.cpp (getCUDABlasLtWorkspace), "
        "native/cuda/Blas.cpp (addmm_out_cuda_impl); pull requests 156495, 151163, 175879; seen in real snapshots of "
        "torch 2.4 (taken and given) and 2.9 (kept)"
    )

    def effect(self, call: Call) -> Effect | None:
        """The workspace of this call."""
        if lt_shares(call.torch) or not uses_lt(call):
            return None
        steps: list[Step] = [Output()]
        if lt_keeps(call.torch):
            if first_here(call, "cublas"):
                steps.append(Keep("cublas", workspace_bytes(call.gpu, call.torch)))
            if first_here(call, "cublaslt"):
                steps.append(Keep("cublaslt", lt_workspace_bytes()))
            return Effect(tuple(steps)) if len(steps) > 1 else None
        steps.append(Take("cublaslt", lt_workspace_bytes()))
        if first_here(call, "cublas"):
            steps.append(Keep("cublas", workspace_bytes(call.gpu, call.torch)))
        return Effect((*steps, Give("cublaslt")))


RULE = CublasLt()
