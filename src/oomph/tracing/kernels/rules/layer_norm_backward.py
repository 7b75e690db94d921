"""The gradients of a layer norm's weight and bias, when there are very many rows."""

from __future__ import annotations

from oomph.tracing.kernels.arguments import bytes_of, div_up, is_tensor, numel
from oomph.tracing.kernels.rule import Call, Effect, Output, Step, Take


class LayerNormBackward:
    """More than 65,536 rows that are narrow for the GPU: partial gradients of 32 rows each, from torch 2.7 on. A
    strided gradient or input is copied first."""

    name = "layer_norm_backward"
    operators = ("aten.native_layer_norm_backward", "aten._fused_rms_norm_backward")
    evidence = (
        "aten/src/ATen/native/cuda/layer_norm_kernel.cu (layer_norm_backward_cuda, "
        "ConfigureAndLaunchGammaBetaBackwardKernel: pull request 148605)"
    )

    def effect(self, call: Call) -> Effect | None:
        """Copies before the gradients, partial ones after."""
        gradient, tensor, shape = call.args[:3]
        steps: list[Step] = [
            Take(name, bytes_of(it))
            for name, it in (("gradient", gradient), ("input", tensor))
            if not it.is_contiguous()
        ]
        columns = numel(shape)
        rows = numel(tensor.shape) // max(columns, 1)
        if call.torch >= (2, 7) and rows > 64 * 1024 and columns // 32 < call.gpu.multiprocessors // 2:
            blocks = min(32 * 1024 // div_up(columns, 32), div_up(rows, 32))
            affine = [it for it in call.args[3:7] if is_tensor(it) and tuple(it.shape) == tuple(shape)]
            steps.append(Output())
            steps += [
                Take(f"partial{number}", blocks * columns * int(it.dtype.itemsize))
                for number, it in enumerate(affine)
            ]
        return Effect(tuple(steps)) if steps else None


RULE = LayerNormBackward()
