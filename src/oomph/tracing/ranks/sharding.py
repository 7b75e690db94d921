"""What FSDP's own memory is for: gathered parameters, and the buffers that collectives read and write.

Source: torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py and _fsdp_param.py (FSDP2), _flat_param.py and
_runtime_utils.py (FSDP1). They run as they are; here their allocations are only named.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from oomph.memory.categories import CATEGORIES, Category
from oomph.tracing.ranks.everywhere import everywhere
from oomph.tracing.recorder.blocks import UNTOLD
from oomph.tracing.recorder.recorder import Recorder

_GATHERED = "FSDP gathered parameters"
#: Before torch 2.6 FSDP2 lay in a private package.
_PACKAGES = ("torch.distributed.fsdp._fully_shard", "torch.distributed._composable.fsdp")


def install(recorder: Recorder) -> None:
    """Names the memory of FSDP1 and FSDP2."""
    names = _Names(recorder)
    recorder.on_alloc.append(names.tell)
    for package in _PACKAGES:
        recorder.patches.when_imported(f"{package}._fsdp_param_group", names.fsdp2)
    recorder.patches.when_imported("torch.distributed.fsdp._runtime_utils", names.fsdp1)


class _Names:
    """While one of FSDP's functions runs, allocations on the stream that it began on have its name."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.inside: list[tuple[int, int, int]] = []

    def tell(self, block: Any, _tensor: Any, _operator: Any) -> None:
        """Called after each allocation."""
        if self.inside and block.category == UNTOLD:
            category, label, stream = self.inside[-1]
            if stream in (-1, block.stream):
                block.category, block.label = category, label

    def _within(self, category: Category, name: str, *, own_stream: bool = False) -> Any:
        recorder = self.recorder
        number, label = CATEGORIES.index(category), recorder.label_number(name)

        def within(original: Any, *args: Any, **kwargs: Any) -> Any:
            import torch

            stream = recorder.current_stream(torch.cuda.current_device()) if own_stream else -1
            self.inside.append((number, label, stream))
            try:
                return original(*args, **kwargs)
            finally:
                self.inside.pop()

        return within

    def fsdp2(self, module: ModuleType) -> None:
        """The reduced gradients, on a stream of their own, are left to be told as gradients."""
        package = module.__name__.rpartition(".")[0]
        collectives = sys.modules[f"{package}._fsdp_collectives"]
        parameter = sys.modules[f"{package}._fsdp_param"].FSDPParam
        buffer = Category.COMMUNICATION
        everywhere(
            self.recorder, collectives, "foreach_all_gather", self._within(buffer, "FSDP all-gather buffer")
        )
        everywhere(
            self.recorder,
            collectives,
            "foreach_reduce",
            self._within(buffer, "FSDP reduce-scatter buffer", own_stream=True),
        )
        self.recorder.patches.wrap(
            parameter, "init_all_gather_outputs", self._within(Category.PARAMETERS, _GATHERED)
        )

    def fsdp1(self, module: ModuleType) -> None:
        """Flat parameters that are gathered have one storage, which is emptied and filled again."""
        handle = sys.modules["torch.distributed.fsdp._flat_param"].FlatParamHandle
        self.recorder.patches.wrap(
            handle, "init_flat_param_attributes", self._within(Category.PARAMETERS, _GATHERED)
        )
        everywhere(
            self.recorder,
            module,
            "_get_reduce_scatter_tensors",
            self._within(Category.COMMUNICATION, "FSDP reduce-scatter buffer", own_stream=True),
        )
