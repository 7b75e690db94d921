"""diffusers: models of a pipeline's folders, from shipped configurations where the folders are not here.

Where there are no weights, a model is built from its configuration on the CPU, as its weights would be loaded there.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from oomph.errors import InputError
from oomph.job import models as shipped_models
from oomph.tracing.libraries import during
from oomph.tracing.libraries.hub import is_local

if TYPE_CHECKING:
    from oomph.tracing.recorder.recorder import Recorder

#: Arguments of `load_config` itself; what else it gets is handed on.
_OWN = frozenset(
    {
        "pretrained_model_name_or_path",
        "cache_dir",
        "dduf_entries",
        "force_download",
        "local_files_only",
        "mirror",
        "proxies",
        "return_commit_hash",
        "return_unused_kwargs",
        "revision",
        "subfolder",
        "token",
        "user_agent",
    }
)
_FILE = Path(__file__).parent / "configs" / "diffusion.json"


class PipelineNotHereError(InputError, OSError):
    """A part of a pipeline that is not on this machine. Also an OSError, as what diffusers raises itself."""

    def __init__(self, name: str, part: str | None) -> None:
        shown = f"{name}, folder {part}" if part else name
        super().__init__(
            f"the script loads '{shown}' with diffusers, which is not on this machine: give it a folder with the "
            "config.json files of the pipeline's parts (no weights are needed), and load the parts one by one"
        )


def install(recorder: Recorder) -> None:
    """`from_pretrained` of diffusers' models, and their configurations, without a network."""

    def configurations(module: ModuleType) -> None:
        owner = module.ConfigMixin
        inner = vars(owner)["load_config"].__func__
        recorder.patches.set(
            owner, "load_config", classmethod(during.function(recorder, inner, _config(recorder)))
        )

    def models(module: ModuleType) -> None:
        owner = module.ModelMixin
        inner = vars(owner)["from_pretrained"].__func__
        recorder.patches.set(
            owner, "from_pretrained", classmethod(during.function(recorder, inner, _model(recorder)))
        )

    recorder.patches.when_imported("diffusers.configuration_utils", configurations)
    recorder.patches.when_imported("diffusers.models.modeling_utils", models)


@cache
def _known() -> dict[str, dict[str, Any]]:
    models: dict[str, dict[str, Any]] = {}
    for name, entry in json.loads(_FILE.read_text(encoding="utf-8"))["models"].items():
        for one in (name, *entry.get("also", ())):
            models[one.lower()] = entry
    return models


def find(name: str, part: str | None) -> dict[str, Any] | None:
    """The configuration of a pipeline's part, None where it is not shipped. Denoisers are in `job.models`."""
    shipped = shipped_models.find(f"{name}/{part}") if part else None
    if shipped is not None and "_class_name" in shipped.config:
        return shipped.config
    found: dict[str, Any] | None = _known().get(name.lower(), {}).get(part or "")
    return found


def _config(recorder: Recorder) -> Callable[..., Any]:
    def load_config(original: Callable[..., Any], cls: Any, *args: Any, **kwargs: Any) -> Any:
        name = str(args[0] if args else kwargs.get("pretrained_model_name_or_path"))
        part = kwargs.get("subfolder")
        try:
            return original(cls, *args, **kwargs)
        except OSError:
            if is_local(name):
                raise
            config = find(name, part)
        if config is None:
            raise PipelineNotHereError(name, part)
        recorder.assume(
            f"the configuration of {name}, {part}, is the one that oomph ships (public config.json)"
        )
        wanted: list[Any] = [dict(config)]
        if kwargs.get("return_unused_kwargs"):
            wanted.append({key: value for key, value in kwargs.items() if key not in _OWN})
        if kwargs.get("return_commit_hash"):
            wanted.append(None)
        return wanted[0] if len(wanted) == 1 else tuple(wanted)

    return load_config


def _model(recorder: Recorder) -> Callable[..., Any]:
    def from_pretrained(original: Callable[..., Any], cls: Any, *args: Any, **kwargs: Any) -> Any:
        import torch

        path = args[0] if args else kwargs.get("pretrained_model_name_or_path")
        part = kwargs.get("subfolder")
        if _has_weights(str(path), part):
            return original(cls, *args, **kwargs)
        config = cls.load_config(path, subfolder=part)
        model = cls.from_config(config)
        dtype = kwargs.get("torch_dtype") or kwargs.get("dtype")
        if isinstance(dtype, torch.dtype):
            model = model.to(dtype)
        recorder.assume(
            f"the weights of {path}{f', {part},' if part else ''} stand in, in the configuration's shapes"
        )
        device = kwargs.get("device_map")
        if device is not None:
            model = model.to(device.get("", 0) if isinstance(device, dict) else "cuda")
        return model.eval()

    return from_pretrained


def _has_weights(name: str, part: str | None) -> bool:
    folder = Path(name) / (part or "")
    if Path(name).is_dir():
        return any(one.suffix in (".safetensors", ".bin") for one in folder.glob("*"))
    if is_local(name):
        return True
    from huggingface_hub import try_to_load_from_cache

    file = f"{part}/" if part else ""
    ends = ("safetensors", "safetensors.index.json", "bin")
    found = [try_to_load_from_cache(name, f"{file}diffusion_pytorch_model.{end}") for end in ends]
    return any(isinstance(one, str) for one in found)
