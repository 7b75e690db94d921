"""Recurrent layers on a GPU go to cuDNN in a CUDA build, which then needs the GPU before any operator is dispatched
(aten/src/ATen/native/cudnn/RNN.cpp: the state of dropout). With cuDNN off for the call they take the operators that
a CPU build takes, so a trace says the same with both.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from oomph.tracing.recorder import categories, recurrent
from oomph.tracing.recorder.recorder import Recorder

SENTENCE = (
    "Recurrent layers (LSTM, GRU, RNN) ran as cuDNN runs them, whole; how much it keeps for backward is estimated from "
    "two public measurements of an old release."
)
_MODES = {
    "rnn_relu": recurrent.RELU,
    "rnn_tanh": recurrent.TANH,
    "lstm": recurrent.LSTM,
    "gru": recurrent.GRU,
}


def install(recorder: Recorder) -> None:
    """Puts the replacements where `torch.nn` calls them."""
    import torch

    for name, mode in _MODES.items():
        layer = _Layer(recorder, mode)
        for owner in (torch._VF, torch):  # noqa: SLF001 - what torch.nn.modules.rnn calls
            recorder.patches.wrap(owner, name, layer.run)
    flat = _Flat(recorder)
    recorder.patches.wrap(torch.nn.modules.rnn.RNNBase, "flatten_parameters", flat.flatten)


def _acceptable(tensor: Any) -> bool:
    """Whether cuDNN would take it (cudnn_is_acceptable); the dtypes are those of torch.backends.cudnn."""
    import torch

    cudnn = torch.backends.cudnn
    return bool(
        cudnn.enabled
        and tensor.device.type == "cuda"
        and tensor.dtype in cudnn.CUDNN_TENSOR_DTYPES
        and tensor.numel()
    )


def _without_cudnn(original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Cell by cell. A CUDA build would ask for the GPU before any operator is dispatched (the state of dropout)."""
    import torch

    if not hasattr(torch._C, "_set_cudnn_enabled"):  # noqa: SLF001 - what torch.backends.cudnn.flags sets
        return original(*args, **kwargs)
    before = torch._C._get_cudnn_enabled()  # noqa: SLF001
    torch._C._set_cudnn_enabled(False)  # noqa: SLF001
    try:
        return original(*args, **kwargs)
    finally:
        torch._C._set_cudnn_enabled(before)  # noqa: SLF001


class _Layer:
    def __init__(self, recorder: Recorder, mode: int) -> None:
        self._recorder = recorder
        self._mode = mode

    def run(self, original: Any, *args: Any, **kwargs: Any) -> Any:
        """One layer stack; packed sequences come with the number of sequences of each step."""
        if kwargs or not hasattr(args[0], "fake_device") or not _acceptable(args[0]):
            return _without_cudnn(original, args, kwargs)
        packed = isinstance(args[3], (list, tuple))
        if packed:
            tensor, sizes, hidden, weights, _biases, layers, dropout, train, both = args
            return self._call(tensor, sizes.tolist(), hidden, weights, layers, dropout, train, both)
        tensor, hidden, weights, _biases, layers, dropout, train, both, batch_first = args
        if not batch_first:
            return self._call(tensor, [], hidden, weights, layers, dropout, train, both)
        out, *states = self._call(tensor.transpose(0, 1), [], hidden, weights, layers, dropout, train, both)
        return (out.transpose(0, 1), *states)

    def _call(
        self,
        tensor: Any,
        sizes: list[int],
        hidden: Any,
        weights: Any,
        layers: int,
        dropout: float,
        train: bool,
        both: bool,
    ) -> tuple[Any, ...]:
        import torch

        self._recorder.assume(SENTENCE)
        hx, cx = hidden if self._mode == recurrent.LSTM else (hidden, None)
        tensor, hx, cx, weights, buffer = self._same_dtype(tensor, hx, cx, list(weights), layers, both)
        size = int((hx if cx is None else cx).shape[2])
        projected = int(hx.shape[2]) if int(hx.shape[2]) != size else 0
        per_layer = len(weights) // (layers * (2 if both else 1))
        with torch.autocast("cuda", enabled=False):
            out, hy, cy, _, _ = torch._cudnn_rnn(  # noqa: SLF001 - the operator that C++ calls
                tensor,
                weights,
                per_layer,
                buffer,
                hx,
                cx,
                self._mode,
                size,
                projected,
                layers,
                False,
                dropout,
                train,
                both,
                sizes,
                None,
            )
        return (out, hy) if cx is None else (out, hy, cy)

    def _same_dtype(self, tensor: Any, hx: Any, cx: Any, weights: Any, layers: int, both: bool) -> Any:
        """Autocast brings all to float16, the weights into a new buffer at every call."""
        import torch

        room = self._numbers(hx if cx is None else cx, weights, layers, both)
        if not torch.is_autocast_enabled("cuda"):
            if any(one.dtype != tensor.dtype for one in weights):
                raise RuntimeError(
                    "Input and parameter tensors are not the same dtype, found input tensor with "
                    f"{tensor.dtype} and parameter tensor with {weights[0].dtype}"
                )
            return tensor, hx, cx, weights, _buffer(weights, room)
        half = torch.float16
        tensor, hx = tensor.to(half), hx.to(half)
        cx = None if cx is None else cx.to(half)
        flat, *cast = _flat_half().apply(room, *weights)
        return tensor, hx, cx, cast, flat

    def _numbers(self, cells: Any, weights: Any, layers: int, both: bool) -> int:
        """How many numbers cuDNN's buffer has."""
        directions = 2 if both else 1
        total = sum(int(one.numel()) for one in weights)
        if len(weights) // (layers * directions) < 4:
            total += recurrent.missing_biases(self._mode, int(cells.shape[2]), layers, directions)
        return total


def _buffer(weights: Any, room: int) -> Any:
    """The memory on which all weights lie, or a copy of them where they do not lie together."""
    import torch

    with torch.no_grad():
        storages = {one.untyped_storage()._cdata for one in weights}  # noqa: SLF001 - a storage's identity
        first = weights[0]
        if len(storages) == 1 and first.untyped_storage().nbytes() >= room * first.element_size():
            return first.detach().as_strided((room,), (1,), 0)
        return torch.zeros(room, dtype=first.dtype, device=first.device)


@cache
def _flat_half() -> Any:
    import torch

    class FlatHalf(torch.autograd.Function):
        """Weights in float16, one after the other in a new buffer, which comes first."""

        @staticmethod
        def forward(ctx: Any, room: int, *weights: Any) -> Any:
            ctx.dtypes = [one.dtype for one in weights]
            flat = torch.zeros(room, dtype=torch.float16, device=weights[0].device)
            places = recurrent.views(flat, weights)
            for place, one in zip(places, weights, strict=True):
                place.copy_(one)
            ctx.mark_non_differentiable(flat)
            return (flat, *places)

        @staticmethod
        def backward(ctx: Any, _flat: Any, *gradients: Any) -> Any:
            pairs = zip(gradients, ctx.dtypes, strict=True)
            return (None, *(None if one is None else one.to(dtype) for one, dtype in pairs))

    return FlatHalf


class _Flat:
    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def flatten(self, original: Any, module: Any) -> None:
        """Weights on the GPU move together into one new buffer, at every call."""
        import torch

        weights = module._flat_weights  # noqa: SLF001 - what flatten_parameters moves
        names = module._flat_weights_names  # noqa: SLF001
        if len(weights) != len(names) or not all(hasattr(one, "fake_device") for one in weights):
            original(module)
            return
        if not all(_acceptable(one) and one.dtype == weights[0].dtype for one in weights):
            return
        if len({id(one) for one in weights}) != len(weights):
            return
        total = sum(int(one.numel()) for one in weights)
        directions = 2 if module.bidirectional else 1
        if not module.bias:
            mode = _MODES[{"LSTM": "lstm", "GRU": "gru"}.get(module.mode, module.mode.lower())]
            total += recurrent.missing_biases(mode, module.hidden_size, module.num_layers, directions)
        with torch.no_grad():
            flat = torch.zeros(total, dtype=weights[0].dtype, device=weights[0].device)
            for place, one in zip(recurrent.views(flat, weights), weights, strict=True):
                place.copy_(one)
                one.data = place
        categories.parameters(self._recorder, zip(names[:1], weights[:1], strict=True))
