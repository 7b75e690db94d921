"""TRL's own kernels: on a GPU they are Triton's, which fold one tile of logits in place and allocate nothing.

Without Triton, TRL does the same with PyTorch's operators and many copies of the tile, which no GPU ever holds.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any

from oomph.tracing.libraries import during
from oomph.tracing.libraries.fakes import is_fake

if TYPE_CHECKING:
    from oomph.tracing.recorder.recorder import Recorder

_MODULES = ("trl.kernels.chunked_logprob", "trl.kernels.chunked_divergence")


def install(recorder: Recorder) -> None:
    """Functions that stand for a Triton kernel do nothing on fake tensors."""

    def fold(original: Callable[..., Any], tile: Any, *args: Any, **kwargs: Any) -> Any:
        if not is_fake(tile):
            return original(tile, *args, **kwargs)
        from oomph.tracing.recorder.values import forget

        for one in (tile, *args):
            if is_fake(one):
                forget(one)
        recorder.assume("TRL's loss runs its Triton kernels, which change a tile of logits in place")
        return None

    def hook(module: ModuleType) -> None:
        for name in [name for name in vars(module) if name.endswith("_tile")]:
            during.wrap(recorder, module, name, fold)
        if hasattr(module, "_use_triton"):
            during.wrap(recorder, module, "_use_triton", lambda _original, _device: False)

    for name in _MODULES:
        recorder.patches.when_imported(name, hook)
