"""`torch.ctc_loss` of fake CUDA tensors: lengths are read as C++ reads them, so that all shapes are known.

Source: aten/src/ATen/native/LossCTC.cpp (ctc_loss), where lengths that are tensors are copied to the host first. Under
a dispatch mode it leaves them in tensors, and nothing knows the sizes of what the kernel keeps. What the kernel takes
is in kernels/rules/ctc_loss.py.
"""

from __future__ import annotations

from typing import Any

from oomph.tracing.recorder.recorder import Recorder
from oomph.tracing.recorder.values import value_of

UNKNOWN = "Lengths for ctc_loss that only a GPU knows are as large as they can be."
IN_CUDNN = (
    "ctc_loss of concatenated int32 targets on the CPU is cuDNN's on a GPU, which keeps the gradient; PyTorch's own "
    "kernel was traced, which keeps a table of time steps and labels."
)
_MEAN, _SUM = 1, 2
_CUDNN_LABELS = 256


def install(recorder: Recorder) -> None:
    """Puts the replacement where `torch.nn.functional.ctc_loss` calls it."""
    import torch

    def ctc_loss(
        original: Any,
        log_probs: Any,
        targets: Any,
        input_lengths: Any,
        target_lengths: Any,
        blank: int = 0,
        reduction: int = _MEAN,
        zero_infinity: bool = False,
    ) -> Any:
        if log_probs.device.type != "cuda":
            return original(
                log_probs, targets, input_lengths, target_lengths, blank, reduction, zero_infinity
            )
        lengths = _Lengths(recorder, log_probs, targets)
        inputs = lengths.known(input_lengths, lengths.steps)
        labels = lengths.known(target_lengths, lengths.most_labels)
        return _loss(recorder, log_probs, targets, inputs, labels, blank, reduction, zero_infinity)

    recorder.patches.wrap(torch, "ctc_loss", ctc_loss)


class _Lengths:
    def __init__(self, recorder: Recorder, log_probs: Any, targets: Any) -> None:
        self._recorder = recorder
        self._index = log_probs.device.index or 0
        self.steps = int(log_probs.shape[0])
        # A sequence has no more labels than there are, and a loss that is finite no more than time steps.
        self.most_labels = min(int(targets.shape[-1]), self.steps)

    def known(self, lengths: Any, most: int) -> list[int]:
        """As numbers. Tensors on the GPU are waited for."""
        if isinstance(lengths, (list, tuple)):
            return [int(one) for one in lengths]
        if lengths.device.type == "cuda":
            self._recorder.synchronize(self._index)
        value = value_of(lengths) if hasattr(lengths, "fake_device") else lengths
        if value is None:
            self._recorder.assume(UNKNOWN)
            return [most] * max(lengths.numel(), 1)
        numbers = value.reshape(-1).tolist()
        return [int(one) for one in numbers]


def _loss(
    recorder: Recorder,
    log_probs: Any,
    targets: Any,
    inputs: list[int],
    labels: list[int],
    blank: int,
    reduction: int,
    zero_infinity: bool,
) -> Any:
    import torch

    dtypes = {torch.float16: "Half", torch.bfloat16: "BFloat16"}
    if log_probs.dtype in dtypes:
        raise NotImplementedError(f"\"ctc_loss_cuda\" not implemented for '{dtypes[log_probs.dtype]}'")
    batched = log_probs.dim() == 3
    if not batched:
        log_probs = log_probs.unsqueeze(1)
    if _in_cudnn(log_probs, targets, inputs, labels, blank):
        recorder.assume(IN_CUDNN)
    targets = targets.to(device=log_probs.device, dtype=torch.int64)
    kernel = torch.ops.aten._ctc_loss.default  # noqa: SLF001 - the operator that C++ calls
    loss = kernel(log_probs, targets, inputs, labels, blank, zero_infinity)[0]
    if zero_infinity:
        zero = torch.zeros((), dtype=loss.dtype, device=loss.device)
        loss = torch.where(loss == float("inf"), zero, loss)
    if reduction == _MEAN:
        counts = torch.tensor(labels, dtype=loss.dtype, device=loss.device).clamp_min(1)
        return (loss / counts).mean()
    if reduction == _SUM:
        return loss.sum()
    return loss if batched else loss.squeeze(0)


def _in_cudnn(log_probs: Any, targets: Any, inputs: list[int], labels: list[int], blank: int) -> bool:
    """aten/src/ATen/native/cudnn/LossCTC.cpp, _use_cudnn_ctc_loss."""
    import torch

    return (
        torch.backends.cudnn.enabled
        and blank == 0
        and targets.dim() == 1
        and targets.dtype is torch.int32
        and targets.device.type == "cpu"
        and log_probs.dtype is torch.float32
        and all(length == log_probs.shape[0] for length in inputs)
        and all(count <= min(_CUDNN_LABELS, log_probs.shape[0]) for count in labels)
    )
