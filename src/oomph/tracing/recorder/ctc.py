"""`_ctc_loss`, whose shapes torch calls unknown: with lengths as numbers they are not.

Source: aten/src/ATen/native/cuda/LossCTC.cu (ctc_loss_gpu_template).
"""

from __future__ import annotations

from typing import Any


def handle(mode: Any, func: Any, operator: Any, types: Any, args: tuple[Any, ...], kwargs: Any) -> Any:
    """A loss of each sequence, and a table of sequence x time step x (labels with blanks around)."""
    lengths = args[3]
    if not isinstance(lengths, (list, tuple)):
        return NotImplemented
    return mode.kernels.run(_Shapes(mode, max(lengths, default=0)), func, operator, types, args, kwargs)


class _Shapes:
    """Stands in for the mode where a kernel asks for its results."""

    def __init__(self, mode: Any, labels: int) -> None:
        self._mode = mode
        self._labels = labels

    def fake(self, _func: Any, _types: Any, args: tuple[Any, ...], _kwargs: Any) -> Any:
        """Loss and table, without memory."""
        import torch

        log_probs = args[0]
        steps, batch = int(log_probs.shape[0]), int(log_probs.shape[1])
        options = {"dtype": log_probs.dtype, "device": log_probs.fake_device}
        empty = torch.ops.aten.empty.memory_format
        shapes = ([batch], [batch, steps, 2 * self._labels + 1])
        return tuple(self._mode.fakes.run(empty, (), (shape,), options) for shape in shapes)
