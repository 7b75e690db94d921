"""What PyTorch itself has and a trace cannot follow: refused by name, instead of an exception from its inside."""

from __future__ import annotations

from types import ModuleType
from typing import Any, NoReturn

from oomph.tracing.errors import TraceRefused
from oomph.tracing.recorder.recorder import Recorder

_NESTED = ("nested_tensor", "as_nested_tensor", "nested_tensor_from_jagged", "narrow")


def install(recorder: Recorder) -> None:
    """Compiled extensions, flex_attention, nested tensors on the GPU."""
    patches = recorder.patches

    def extensions(module: ModuleType) -> None:
        for name in ("load", "load_inline"):
            if hasattr(module, name):
                patches.set(module, name, _extension)

    def flex(module: ModuleType) -> None:
        patches.set(module, "flex_attention", _flex)

    def nested(module: ModuleType) -> None:
        for name in _NESTED:
            if hasattr(module, name):
                patches.wrap(module, name, _nested)

    patches.when_imported("torch.utils.cpp_extension", extensions)
    patches.when_imported("torch.nn.attention.flex_attention", flex)
    patches.when_imported("torch.nested", nested)


def _extension(*args: Any, **kwargs: Any) -> NoReturn:
    name = kwargs.get("name", args[0] if args else "")
    raise TraceRefused(
        f"The script compiles the extension {name}, whose kernels need a real GPU: a trace can only run code that "
        "calls PyTorch's own operators."
    )


def _flex(*_args: Any, **_kwargs: Any) -> NoReturn:
    raise TraceRefused(
        "flex_attention is compiled into a kernel of its own, whose memory is not known without a GPU: trace the "
        "script with scaled_dot_product_attention."
    )


def _nested(original: Any, *args: Any, **kwargs: Any) -> Any:
    try:
        return original(*args, **kwargs)
    except (AssertionError, NotImplementedError, RuntimeError) as error:
        if not _on_gpu(args, kwargs):
            raise
        raise TraceRefused(
            "Nested tensors on a GPU cannot be traced; a padded batch of the same sequences can, and holds at least as "
            "many elements."
        ) from error


def _on_gpu(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    import torch

    device = kwargs.get("device")
    if device is not None:
        return torch.device(device).type == "cuda"
    flat = [one for each in args for one in (each if isinstance(each, list | tuple) else [each])]
    return any(isinstance(one, torch.Tensor) and one.is_cuda for one in flat)
