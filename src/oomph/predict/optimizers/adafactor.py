"""Adafactor: of transformers (and fairseq, from which it comes) and of torch.optim.

Sources: transformers/optimization.py (`Adafactor.step`, as the Trainer makes it: no first moment, no relative step),
torch/optim/_adafactor.py of PyTorch 2.13 (`_single_tensor_adafactor`: the default is not foreach). Both go parameter by
parameter. A matrix has a state per row and per column, a vector one per element. See docs/terms/optimizer-adafactor.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import NamedTuple

from oomph.memory.kernels.iteration import reduction
from oomph.memory.kernels.reduce_launch import Kernel, scratch
from oomph.predict.engine.heap import contiguous
from oomph.predict.optimizers.script import SCALAR, STATE, TEMPORARY, Frame, Script, ScriptedStepper
from oomph.predict.sharding.base import UnitParameter

ROWS = "row and column states"
VARIANCE = "second moments of vectors"
COPY = "fp32 copies of one parameter"
UPDATE = "Adafactor's update of one parameter"
SMALL = "means and norms"
PARTIAL = "partial norms"


class _Processors(NamedTuple):
    multiprocessors: int
    threads_per_multiprocessor: int


@lru_cache(maxsize=1024)
def _norm_scratch(shape: tuple[int, ...], item: int, gpu: tuple[int, int], torch: tuple[int, int]) -> int:
    """Bytes that thread blocks write for each other in the norm of a matrix's columns (aten/src/ATen/native/cuda/
    Reduce.cuh, global_memory_size): twice a large embedding."""
    whole = reduction(shape, contiguous(shape), (len(shape) - 2,), item, [item])
    launches = (scratch(part, Kernel(item, 4), _Processors(*gpu), torch) for part in whole.parts())
    return max((0 if each is None else each.buffer_bytes for each in launches), default=0)


def factors(parameter: UnitParameter) -> tuple[int, int] | None:
    """Elements of the row and of the column state; None for a vector, or where the shape is not known."""
    shape = parameter.shape
    if len(shape) < 2 or not parameter.numel:
        return None
    return prod(shape[:-1]), prod(shape[:-2]) * shape[-1]


@dataclass
class HubAdafactor(ScriptedStepper):
    """transformers' Adafactor. States are fp32; half-precision parameters and gradients are copied to fp32, one
    parameter at a time."""

    def write(self, script: Script, parameters: list[UnitParameter], first: bool) -> None:
        """One step: the loop's local variables hold the last parameter's tensors until the next one's are there."""
        frame = Frame(script)
        for each in parameters:
            self._one(script, frame, each, first)
        frame.close()

    def _one(self, script: Script, frame: Frame, each: UnitParameter, first: bool) -> None:
        size = 4 * each.numel
        parts = factors(each)
        frame.bind("grad")
        if each.grad_bytes < 4:
            frame.bind("grad", [script.alloc(size, TEMPORARY, COPY)])
        if first:
            self._states(script, each, parts)
        frame.bind("p_data_fp32")
        if each.weight_bytes < 4:
            frame.bind("p_data_fp32", [script.alloc(size, TEMPORARY, COPY)])
        self._rms(script, first)
        squares = script.alloc(size, TEMPORARY, UPDATE)
        update = script.alloc(size, TEMPORARY, UPDATE)
        script.free([squares])
        frame.bind("update", [update])
        if parts is not None:
            for count in parts:
                script.free([script.alloc(4 * count, TEMPORARY, SMALL)])
            self._approximate(script, frame, size, parts)
        else:
            frame.bind("update", [script.alloc(size, TEMPORARY, UPDATE)])
        norm = [script.alloc(SCALAR, TEMPORARY, SMALL) for _ in range(2)]
        script.free(norm)
        script.free([script.alloc(size, TEMPORARY, UPDATE)])

    def _states(self, script: Script, each: UnitParameter, parts: tuple[int, int] | None) -> None:
        if parts is None:
            script.alloc(4 * each.numel, STATE, VARIANCE)
            return
        for count in parts:
            script.alloc(4 * count, STATE, ROWS)

    def _rms(self, script: Script, first: bool) -> None:
        """state["RMS"] is a tensor on the device, made anew at each step."""
        norm = script.alloc(SCALAR, TEMPORARY, SMALL)
        if first:
            script.alloc(SCALAR, STATE, ROWS)
        script.free([norm])

    def _approximate(self, script: Script, frame: Frame, size: int, parts: tuple[int, int]) -> None:
        """`_approx_sq_grad`: factors of rows and columns, and their product."""
        rows, columns = parts
        made = [script.alloc(4 * count, TEMPORARY, SMALL) for count in (rows, columns)]
        update = script.alloc(size, TEMPORARY, UPDATE)
        script.free(made)
        frame.bind("update", [update])


@dataclass
class TorchAdafactor(ScriptedStepper):
    """torch.optim.Adafactor. States have the gradient's dtype. `gpu`: multiprocessors, and threads of each (None: what
    kernels take for themselves is left out)."""

    gpu: tuple[int, int] | None = None
    torch: tuple[int, int] = (2, 13)

    def write(self, script: Script, parameters: list[UnitParameter], first: bool) -> None:
        """One step."""
        sizes = [(each, factors(each)) for each in parameters]
        if first:
            for each, parts in sizes:
                for count in parts or (each.numel,):
                    script.alloc(count * each.grad_bytes, STATE, ROWS if parts else VARIANCE)
        frame = Frame(script)
        for each, parts in sizes:
            size = each.numel * each.grad_bytes
            if parts is not None:
                for name, count in zip(("row_mean", "col_mean"), parts, strict=True):
                    frame.bind(name, [script.alloc(count * each.grad_bytes, TEMPORARY, SMALL)])
                if self.gpu is not None:
                    partial = _norm_scratch(each.shape, int(each.grad_bytes), self.gpu, self.torch)
                    script.free([script.alloc(partial, TEMPORARY, PARTIAL)])
            else:
                frame.bind("grad_squared", [script.alloc(size, TEMPORARY, UPDATE)])
            frame.bind("var_estimate", [script.alloc(size, TEMPORARY, UPDATE)])
            if parts is not None:
                means = parts[0] // each.shape[-2]
                script.free([script.alloc(means * each.grad_bytes, TEMPORARY, SMALL)])
            frame.also("update", "var_estimate")
        frame.close()
