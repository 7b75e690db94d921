"""Weights of transformers' models without files: `from_pretrained` runs as it is, on stand-ins for the tensors.

Where a safetensors file is there, its header gives names, shapes and dtypes, and no data are read. Where there is
none, the checkpoint is taken to have every weight of the model, in the dtype that its config.json names (whatever
dtype the script asks for, to which it is then cast), and no second copy of tied ones. All else is transformers' own
code: where a tensor is put, when it is cast, what is quantised, and the allocation that warms the cache up.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any

from oomph.errors import InputError
from oomph.tracing.libraries import during
from oomph.tracing.libraries.fakes import host_tensor, is_fake
from oomph.tracing.libraries.hub import set_environment

if TYPE_CHECKING:
    from oomph.tracing.recorder.recorder import Recorder

#: In place of the path of a checkpoint that is not there.
STANDIN = "oomph-stand-in/model.safetensors"
#: safetensors' names of dtypes, which are torch's but for the case and these.
_DTYPES = {
    "F64": "float64",
    "F32": "float32",
    "F16": "float16",
    "BF16": "bfloat16",
    "I64": "int64",
    "I32": "int32",
    "I16": "int16",
    "I8": "int8",
    "U8": "uint8",
    "BOOL": "bool",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
}


def install(recorder: Recorder) -> None:
    """`from_pretrained` of transformers gets stand-ins for what it would read."""
    # Several threads would put tensors on the device in an order that no two runs share.
    set_environment(recorder, "HF_DEACTIVATE_ASYNC_LOAD", "1")
    loader = _Loader(recorder)

    def hook(module: ModuleType) -> None:
        patches = recorder.patches
        if hasattr(module, "_get_resolved_checkpoint_files"):
            during.wrap(recorder, module, "_get_resolved_checkpoint_files", loader.resolve)
        if hasattr(module, "load_state_dict"):
            during.wrap(recorder, module, "load_state_dict", loader.load_state_dict)
        if hasattr(module, "_tied_params_are_equal"):
            during.wrap(recorder, module, "_tied_params_are_equal", loader.equal)
        model = module.PreTrainedModel
        raw = vars(model)["_load_pretrained_model"]
        inner = raw.__func__

        def load(*args: Any, **kwargs: Any) -> Any:
            return loader.load(inner, isinstance(raw, classmethod), *args, **kwargs)

        patches.set(model, "_load_pretrained_model", type(raw)(load))
        if hasattr(module, "accelerate_disk_offload"):
            during.wrap(recorder, module, "accelerate_disk_offload", loader.offload)

    recorder.patches.when_imported("transformers.modeling_utils", hook)


def header(path: str) -> dict[str, tuple[tuple[int, ...], str]]:
    """Name -> (shape, name of torch's dtype) of a safetensors file, from its header alone."""
    import safetensors

    tensors = {}
    with safetensors.safe_open(path, framework="pt") as file:
        for key in file.keys():  # noqa: SIM118 - not a dict
            part = file.get_slice(key)
            tensors[key] = (tuple(part.get_shape()), _DTYPES.get(part.get_dtype(), "float32"))
    return tensors


class _Loader:
    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._apart = False
        self._stored = "float32"

    def resolve(self, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """The checkpoint's files, or the stand-in's name where there are none."""
        name = kwargs.get("pretrained_model_name_or_path") or (args[0] if args else None)
        try:
            return original(*args, **kwargs)
        except OSError:
            if name is None or kwargs.get("gguf_file"):
                raise
            self._stored = _named_dtype(name, kwargs.get("download_kwargs") or {})
            return [STANDIN], None

    def load_state_dict(self, original: Callable[..., Any], file: Any, *args: Any, **kwargs: Any) -> Any:
        """Where a configuration names no dtype, transformers looks at the checkpoint: such ones are float32."""
        import torch

        if str(file) != STANDIN:
            return original(file, *args, **kwargs)
        return {"weight": torch.empty(0, dtype=torch.float32, device="meta")}

    def offload(self, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Weights on the disk are read again at every use; a stand-in has no file."""
        if STANDIN in (kwargs.get("checkpoint_files") or (args[2] if len(args) > 2 else ())):
            raise InputError(
                "device_map leaves parts of the model on the disk, which a trace cannot read without its weights: the "
                "model does not fit on the card and in max_memory's share of the host (quantise it, or take more or "
                "larger GPUs)"
            )
        return original(*args, **kwargs)

    def equal(self, original: Callable[..., Any], one: Any, other: Any, *args: Any) -> Any:
        """Whether two weights that could be tied are: stand-ins hold nothing, so the checkpoint's kind decides."""
        if not is_fake(one) and not is_fake(other):
            return original(one, other, *args)
        return not self._apart and bool(one.shape == other.shape)

    def load(self, inner: Callable[..., Any], bound: bool, *args: Any, **kwargs: Any) -> Any:
        """transformers' `_load_pretrained_model` on tensors that hold nothing."""
        first = 1 if bound else 0
        model, state_dict, files = (*args[first:], *(None,) * 3)[:3]
        model = kwargs.get("model", model)
        state_dict = kwargs.get("state_dict", state_dict)
        files = kwargs.get("checkpoint_files", files)
        if state_dict is not None or not files or not all(str(f).endswith(".safetensors") for f in files):
            return inner(*args, **kwargs)
        stand_in = self._tensors(model, [str(f) for f in files])
        if "state_dict" in kwargs:
            kwargs["state_dict"] = stand_in
        else:
            args = (*args[: first + 1], stand_in, *args[first + 2 :])
        return inner(*args, **kwargs)

    def _tensors(self, model: Any, files: list[str]) -> dict[str, Any]:
        if STANDIN in files:
            return self._imagined(model)
        import torch

        tensors = {}
        for file in files:
            for key, (shape, dtype) in header(file).items():
                tensors[key] = host_tensor(self._recorder, shape, getattr(torch, dtype))
        self._recorder.assume(
            "weights are not read: names, shapes and dtypes come from the safetensors headers"
        )
        return tensors

    def _imagined(self, model: Any) -> dict[str, Any]:
        import torch

        config = model.config
        stored = getattr(torch, self._stored)
        tied = _tied(model)
        self._apart = _keeps_both(config)
        if self._apart:
            tied.discard("lm_head.weight")
        tensors = {}
        for key, tensor in model.state_dict().items():
            if key in tied or not hasattr(tensor, "shape"):
                continue
            dtype = stored if tensor.is_floating_point() else tensor.dtype
            tensors[key] = host_tensor(self._recorder, tuple(tensor.shape), dtype)
        name = getattr(config, "name_or_path", "") or type(model).__name__
        self._recorder.assume(
            f"the checkpoint of {name} is taken to hold every weight of {type(model).__name__} in "
            f"{self._stored}; it is loaded one tensor after another"
        )
        return tensors


def _named_dtype(name: Any, asked: dict[str, Any]) -> str:
    """The dtype that the checkpoint's own config.json names; the model's configuration may name what the script asked
    for. Where it names none, the weights were saved in float32: transformers names any other when it saves."""
    import torch
    from transformers import PretrainedConfig

    places = ("cache_dir", "revision", "subfolder", "token", "local_files_only")
    try:
        found, _ = PretrainedConfig.get_config_dict(
            name, **{key: asked[key] for key in places if key in asked}
        )
    except (OSError, ValueError):
        return "float32"
    parts = (found, *(found.get(part) for part in ("text_config", "llm_config", "decoder")))
    for part in parts:
        said = (part.get("dtype") or part.get("torch_dtype")) if isinstance(part, dict) else None
        if said is not None:
            dtype = str(said).removeprefix("torch.")
            if isinstance(getattr(torch, dtype, None), torch.dtype):
                return dtype
    return "float32"


def _tied(model: Any) -> set[str]:
    """Names of weights that are another one's second name, which a safetensors checkpoint leaves out."""
    keys = getattr(model, "all_tied_weights_keys", None)
    if keys is not None:
        return set(keys)
    if not getattr(model.config, "tie_word_embeddings", False):
        return set()
    return set(getattr(model, "_tied_weights_keys", None) or ())


def _keeps_both(config: Any) -> bool:
    """T5 1.1 and FLAN-T5: transformers says that the output layer is tied, and their checkpoints have their own."""
    return getattr(config, "scale_decoder_outputs", True) is False
