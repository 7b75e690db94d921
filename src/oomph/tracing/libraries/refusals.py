"""Packages whose kernels or engines a trace knows nothing of: one sentence when the script imports them."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Sequence
from types import FrameType, ModuleType
from typing import TYPE_CHECKING, Any

from oomph.errors import UsageError
from oomph.tracing.libraries import during

if TYPE_CHECKING:
    from oomph.tracing.recorder.recorder import Recorder

_KERNELS = (
    "its CUDA kernels allocate memory that oomph has no rules for; a trace can only run code that calls PyTorch's own "
    "operators, so switch it off in the script"
)
#: Top-level package -> what to say.
REFUSED = {
    "deepspeed": "its engine flattens parameters and gradients into buffers of its own, which needs a GPU; "
    "trace the script without DeepSpeed (what ZeRO shards is then whole), or with FSDP2 (fully_shard), which shards as "
    "ZeRO stage 3 does; predicting ZeRO itself is planned",
    "flash_attn": _KERNELS + ' (attn_implementation="sdpa" uses the same flash kernel through PyTorch)',
    "flash_attn_interface": _KERNELS
    + ' (attn_implementation="sdpa" uses the same kind of kernel through PyTorch)',
    "xformers": _KERNELS,
    "liger_kernel": _KERNELS,
    "unsloth": _KERNELS + " (the same model trains with transformers, peft and trl)",
    "transformer_engine": _KERNELS,
    "apex": _KERNELS,
    "mamba_ssm": _KERNELS,
    "causal_conv1d": _KERNELS,
    "cupy": "it needs a GPU, and its memory is outside PyTorch's allocator",
}
#: Libraries look for these and do without: they are refused only where the script itself asks.
_OPTIONAL_IMPORTERS = (
    "torch",
    "transformers",
    "accelerate",
    "peft",
    "trl",
    "diffusers",
    "datasets",
    "lightning",
    "pytorch_lightning",
    "lightning_utilities",
    "torchmetrics",
    "bitsandbytes",
    "huggingface_hub",
    "safetensors",
    "tokenizers",
    "numpy",
    "pandas",
    "scipy",
    "sklearn",
    "pyarrow",
)


#: Frames between an import statement and the finder.
_MACHINERY = frozenset({"importlib", "_frozen_importlib", "_frozen_importlib_external", "oomph"})


class NotTraceableError(UsageError, ModuleNotFoundError):
    """The script uses something that a trace cannot run. Also a ModuleNotFoundError: a script that can do without the
    package does without it."""

    def __init__(self, package: str) -> None:
        super().__init__(f"the script uses {package}, which oomph cannot trace: {REFUSED[package]}")


def install(recorder: Recorder) -> None:
    """Importing a refused package from the script itself raises NotTraceableError."""
    finder = _Refuser(recorder)
    sys.meta_path.insert(0, finder)
    recorder.patches.when_undone(lambda: sys.meta_path.remove(finder))

    def no_engine(*_args: Any, **_kwargs: Any) -> None:
        raise NotTraceableError("deepspeed")

    def transformers_config(module: ModuleType) -> None:
        during.wrap(recorder, module.HfDeepSpeedConfig, "__init__", no_engine)

    def accelerate_plugin(module: ModuleType) -> None:
        during.wrap(recorder, module.DeepSpeedPlugin, "__post_init__", no_engine)

    recorder.patches.when_imported("transformers.integrations.deepspeed", transformers_config)
    recorder.patches.when_imported("accelerate.utils.dataclasses", accelerate_plugin)


class _Refuser(importlib.abc.MetaPathFinder):
    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def find_spec(
        self, fullname: str, _path: Sequence[str] | None = None, _target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Finds nothing; raises for a refused package that the script imports."""
        package = fullname.partition(".")[0]
        if package in REFUSED and imported_by_script():
            if importlib.machinery.PathFinder.find_spec(package) is not None:
                self._recorder.note(f"{package} was taken to be not installed, because oomph cannot trace it")
            raise NotTraceableError(package)
        return None


def imported_by_script() -> bool:
    """Whether an import statement of the script asks: neither a library that can do without, nor somebody who only
    wants to know whether the package is there."""
    frame: FrameType | None = sys._getframe(2)  # noqa: SLF001 - who imports is only in the stack
    while frame is not None:
        name = str(frame.f_globals.get("__name__", ""))
        if name == "importlib.util":
            return False
        package = name.partition(".")[0]
        if package not in _MACHINERY:
            return package not in _OPTIONAL_IMPORTERS
        frame = frame.f_back
    return True
