"""Recurrent layers as cuDNN runs them: whole, with a reserve that is kept for the backward pass.

Source of what is allocated, and in which order: aten/src/ATen/native/cudnn/RNN.cpp (_cudnn_rnn,
_cudnn_rnn_backward_input, _cudnn_rnn_backward_weight). How large reserve and workspace are only cuDNN knows. They are
estimated from the sizes that it gave for a GRU and an LSTM of 2,279,370 and 3,038,090 weights (four layers of 320
states on 123 inputs; pytorch/pytorch issue 2895, cuDNN of 2017): reserves of 864,000,000 and 736,000,000 bytes, which
are to each other as 27 and 23: a GRU's layer keeps 6 states of every time step, an LSTM's 5, and one lies between two
layers. Workspaces of 13,169,920 and 17,730,560 bytes are the weights without biases and, for a batch of 100, 8 and 11
states of each layer. The batch is not told there: 250 time steps of 100 sequences fit both. Newer releases may
differ, so half as much again is a bound.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import Any

#: torch's numbers of modes (aten/src/ATen/native/cudnn/RNN.cpp, torch/backends/cudnn/rnn.py).
RELU, TANH, LSTM, GRU = range(4)
GATES = {RELU: 1, TANH: 1, LSTM: 4, GRU: 3}
_KEPT = {RELU: 1, TANH: 1, LSTM: 5, GRU: 6}
_AT_WORK = {RELU: 3, TANH: 3, LSTM: 11, GRU: 8}
_MEMORY = "reserves of recurrent layers"


@dataclass(frozen=True)
class Layers:
    """What one call computes. `steps` times `batch` rows of `element` bytes a number; `parameters` are all weights."""

    mode: int
    hidden: int
    projected: int
    layers: int
    directions: int
    steps: int
    batch: int
    element: int
    parameters: int
    dropout: bool

    @property
    def states(self) -> int:
        """Bytes of the states of all time steps in one layer."""
        return self.element * self.steps * self.batch * self.hidden * self.directions

    def reserve(self) -> int:
        """Bytes that are kept from forward to backward."""
        kept = _KEPT[self.mode] + bool(self.projected)
        between = (self.layers - 1) * (2 if self.dropout else 1)
        return self.states * (self.layers * kept + between)

    def workspace(self, train: bool) -> int:
        """Bytes for the time of a call. Without a reserve the products of a layer's inputs have to be there."""
        at_work = (
            self.element * self.batch * self.hidden * self.directions * self.layers * _AT_WORK[self.mode]
        )
        inputs = 0 if train else self.states * (GATES[self.mode] + (2 if self.layers > 1 else 0))
        return self.element * self.parameters + at_work + inputs


def forward(mode: Any, _func: Any, _operator: Any, _types: Any, args: tuple[Any, ...], _kwargs: Any) -> Any:
    """`_cudnn_rnn`; the caller gives the flat buffer of weights, and time steps first."""
    import torch

    tensor, weights, buffer, hx, cx = args[0], args[1], args[3], args[4], args[5]
    train = bool(args[12])
    what = _layers(args, weights, 6)
    out = (what.projected or what.hidden) * what.directions
    with mode:
        whole = _contiguous(tensor)
        result = tensor.new_empty((*tensor.shape[:-1], out))
        states = torch.empty_like(hx, memory_format=torch.contiguous_format)
        cells = hx.new_empty(0) if cx is None else torch.empty_like(cx, memory_format=torch.contiguous_format)
        workspace = tensor.new_empty(what.workspace(train), dtype=torch.uint8)
        reserve = tensor.new_empty(what.reserve() if train else 0, dtype=torch.uint8)
    _doubt(mode.recorder, reserve, workspace)
    del whole, workspace
    return result, states, cells, reserve, buffer


def backward(mode: Any, _func: Any, _operator: Any, _types: Any, args: tuple[Any, ...], _kwargs: Any) -> Any:
    """`_cudnn_rnn_backward`: gradients of input and states, then of all weights in one buffer."""
    import torch

    tensor, weights, buffer, hx, cx, output = args[0], args[1], args[3], args[4], args[5], args[6]
    gradients, mask = args[7:10], args[-1]
    if all(one is None for one in gradients):
        return None, None, None, [None] * len(weights)
    what = _layers(args, weights, 10)
    like = torch.contiguous_format
    with mode:
        pairs = zip(gradients, (output, hx, cx), strict=True)
        given = [
            (torch.zeros_like(of, memory_format=like) if one is None else one) if of is not None else None
            for one, of in pairs
        ]
        whole = _contiguous(tensor)
        given = [one if one is None else _contiguous(one) for one in given]
        of_input = torch.empty_like(tensor, memory_format=like)
        of_states = torch.empty_like(hx, memory_format=like)
        of_cells = None if cx is None else torch.empty_like(cx, memory_format=like)
        workspace = tensor.new_empty(what.workspace(train=True), dtype=torch.uint8)
        del workspace
        del whole
        of_weights = [None] * len(weights)
        if mask[3]:
            whole = _contiguous(tensor)
            flat = torch.zeros_like(buffer)
            workspace = tensor.new_empty(what.workspace(train=True), dtype=torch.uint8)
            of_weights = views(flat, weights)
            if _without_biases(args[2], what):
                of_weights = [torch.empty_like(one) for one in weights]
            del workspace, whole
    return of_input, of_states, of_cells, of_weights


def _contiguous(tensor: Any) -> Any:
    import torch

    return tensor if tensor.is_contiguous() else tensor.clone(memory_format=torch.contiguous_format)


def views(flat: Any, weights: Any) -> list[Any]:
    """The weights' places in a flat buffer, one after the other."""
    found, start = [], 0
    for one in weights:
        found.append(flat.narrow(0, start, one.numel()).view(one.shape))
        start += one.numel()
    return found


def missing_biases(mode: int, hidden: int, layers: int, directions: int) -> int:
    """The numbers that cuDNN has room for in its buffer where a layer has no biases: two of each gate."""
    return 2 * GATES[mode] * hidden * layers * directions


def _without_biases(stride: int, what: Layers) -> bool:
    return stride < (5 if what.projected else 4)


def _layers(args: tuple[Any, ...], weights: Any, first: int) -> Layers:
    """From `mode` on, the arguments of forward and backward are the same."""
    tensor, hx = args[0], args[4]
    mode, hidden, projected, layers, _, dropout, train, bidirectional, sizes = args[first : first + 9]
    return Layers(
        mode=int(mode),
        hidden=int(hidden),
        projected=int(projected),
        layers=int(layers),
        directions=2 if bidirectional else 1,
        steps=len(sizes) or int(tensor.shape[0]),
        batch=int(hx.shape[1]),
        element=int(tensor.dtype.itemsize),
        parameters=sum(int(one.numel()) for one in weights),
        dropout=bool(train and dropout and layers > 1),
    )


def _doubt(recorder: Any, reserve: Any, workspace: Any) -> None:
    """Half of all reserves that are there, and of the workspace, is in doubt."""
    kept = recorder.kernel_memory.setdefault(_MEMORY, [])
    kept[:] = [(size, storage) for size, storage in kept if storage() is not None]
    if reserve.numel():
        kept.append((reserve.numel(), weakref.ref(reserve.untyped_storage())))
    doubt = (sum(size for size, _ in kept) + workspace.numel()) // 2
    recorder.uncertain_bytes = max(recorder.uncertain_bytes, doubt)
