"""cuBLAS's workspace, from the allocator: once per thread and stream, after the first matrix product's result."""

from __future__ import annotations

from oomph.tracing.kernels.arguments import numel
from oomph.tracing.kernels.blas import first_here, is_there, workspace_bytes
from oomph.tracing.kernels.rule import Call, Effect, Keep, Output


class CublasWorkspace:
    """The handle's workspace stays until the process ends, or until `torch._C._cuda_clearCublasWorkspaces`."""

    name = "cublas_workspace"
    operators = (
        "aten.mm",
        "aten.bmm",
        "aten.addmm",
        "aten.baddbmm",
        "aten.addbmm",
        "aten.addmv",
        "aten.mv",
        "aten.dot",
        "aten.vdot",
        "aten._addmm_activation",
        "aten._int_mm",
        "aten._scaled_mm",
    )
    evidence = (
        "aten/src/ATen/cuda/CublasHandlePool.cpp (getCurrentCUDABlasHandle, parseChosenWorkspaceSize); pull request "
        "175344 (Blackwell); seen in real snapshots of torch 2.1 to 2.10, before Hopper and on it"
    )

    def effect(self, call: Call) -> Effect | None:
        """The workspace, if this call is the first to need it."""
        if is_there(call, "cublas"):
            return None
        operands = [value for value in call.args if hasattr(value, "shape")]
        if not all(numel(operand.shape) for operand in operands) or not first_here(call, "cublas"):
            return None
        return Effect((Output(), Keep("cublas", workspace_bytes(call.gpu, call.torch))))


RULE = CublasWorkspace()
