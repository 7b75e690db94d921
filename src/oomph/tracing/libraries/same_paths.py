"""transformers takes the same road as on a GPU.

It asks whether a tensor is fake, and then does what suits `torch.export`: it builds attention masks that it would have
left out, and skips checks of values. A trace has real values where it matters (masks and lengths keep them), so the
answer is no.
"""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING

from oomph.tracing.libraries import during

if TYPE_CHECKING:
    from oomph.tracing.recorder.recorder import Recorder


def install(recorder: Recorder) -> None:
    """No function of transformers sees that tensors are fake."""

    def hook(module: ModuleType) -> None:
        for name in ("is_fake_tensor", "_is_fake_tensor"):
            if hasattr(module, name):
                during.wrap(recorder, module, name, lambda _original, _tensor: False)

    for name in ("transformers.utils.import_utils", "transformers.masking_utils"):
        recorder.patches.when_imported(name, hook)
