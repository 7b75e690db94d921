"""Results of operators for which torch has CUDA kernels and no fake ones: their shapes, as the CUDA kernels make them.

Sources: aten/src/ATen/native/cuda/RNN.cu (GRU cells), MultiMarginLoss.cu, LossCTC.cu.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_GRU_SAVED = 5  # arrays as wide as the hidden state that a cell keeps for its backward pass


def install(recorder: Any) -> None:
    """Registers what this torch lacks for tensors without memory, until the trace ends."""
    import torch

    library = torch.library.Library("aten", "IMPL")
    recorder.patches.when_undone(library._destroy)  # noqa: SLF001 - torch's own tests undo it so
    for name, function in _FUNCTIONS.items():
        if _exists(name) and not torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{name}", "Meta"):  # noqa: SLF001
            library.impl(name, function, "Meta")


def _exists(name: str) -> bool:
    """Whether this torch has the operator at all."""
    import torch

    packet, _, overload = name.partition(".")
    found = getattr(torch.ops.aten, packet, None)
    return found is not None and hasattr(found, overload or "default")


def _gru_cell(
    input_gates: Any, hidden_gates: Any, state: Any, input_bias: Any = None, hidden_bias: Any = None
) -> tuple[Any, Any]:
    del input_gates, hidden_gates, input_bias, hidden_bias
    rows, width = state.shape
    return state.new_empty(state.shape), state.new_empty(rows, _GRU_SAVED * width)


def _gru_cell_backward(gradient: Any, saved: Any, has_bias: bool) -> tuple[Any, ...]:
    rows, width = saved.shape[0], saved.shape[1] // _GRU_SAVED
    gates = [saved.new_empty(rows, 3 * width) for _ in range(2)]
    biases = [saved.new_empty(3 * width) for _ in range(2)] if has_bias else [None, None]
    return (*gates, gradient.new_empty(gradient.shape), *biases)


def _multi_margin_backward(gradient: Any, tensor: Any, *_: Any, **__: Any) -> Any:
    del gradient
    return tensor.new_empty(tensor.shape)


def _ctc_backward(gradient: Any, log_probs: Any, *_: Any, **__: Any) -> Any:
    del gradient
    return log_probs.new_empty(log_probs.shape)


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "_thnn_fused_gru_cell": _gru_cell,
    "_thnn_fused_gru_cell_backward": _gru_cell_backward,
    "_ctc_loss_backward": _ctc_backward,
    "multi_margin_loss_backward": _multi_margin_backward,
}
