"""The model: its id and revision, what its configuration decides, its parameters, its weights' headers."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

from oomph.recording.fingerprint.found import Found
from oomph.recording.fingerprint.weights import weights

#: Where wrappers keep what they wrap: torch.compile, DDP and FSDP1 and DeepSpeed, PEFT.
_WRAPPED = ("_orig_mod", "module", "_fsdp_wrapped_module")
#: Fields of a configuration that decide about memory.
_FIELDS = (
    "model_type", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads",
    "head_dim", "vocab_size", "max_position_embeddings", "n_embd", "n_layer", "n_head", "n_positions", "d_model",
    "num_experts", "num_local_experts", "num_experts_per_tok", "tie_word_embeddings", "use_cache", "sliding_window",
    "attn_implementation", "_attn_implementation", "torch_dtype", "dtype", "transformers_version",
)  # fmt: skip
_ADAPTER = (
    "peft_type",
    "r",
    "lora_alpha",
    "lora_dropout",
    "target_modules",
    "modules_to_save",
    "use_dora",
    "use_rslora",
)
#: Parameters that are counted at most, one by one.
_MOST = 200_000


def model(found: Found, given: object) -> None:
    """`model.*`. `given` is a module, or the name or folder of one."""
    if given is None:
        return
    if isinstance(given, (str, Path)):
        found.put("model.id", given)
        weights(found, str(given), "")
        return
    inner = _unwrapped(given)
    found.put("model.class", type(inner).__name__)
    _parameters(found, given)
    _adapters(found, inner)
    config = getattr(inner, "config", None)
    if config is None:
        found.miss("model.id", f"{type(inner).__name__} has no config that names it")
        return
    held = config if isinstance(config, dict) else _fields(config)
    name = held.get("_name_or_path") or held.get("name_or_path") or getattr(inner, "name_or_path", "") or ""
    if name:
        found.put("model.id", name)
    else:
        found.miss("model.id", "its configuration has no name (the model was made from a configuration)")
    found.put("model.revision", held.get("_commit_hash"))
    for field in _FIELDS:
        if held.get(field) is not None:
            found.put(f"model.{field.lstrip('_')}", held[field])
    _quantization(found, held.get("quantization_config"))
    if name:
        weights(found, str(name), str(held.get("_commit_hash") or ""))


def _unwrapped(given: object) -> Any:
    inner: Any = given
    for _ in range(8):
        wrapped = next(
            (w for w in (vars(inner).get("_modules", {}).get(n) for n in _WRAPPED) if w is not None), None
        )
        if wrapped is None:
            return inner
        inner = wrapped
    return inner


def _fields(config: object) -> dict[str, Any]:
    """What a configuration object holds; properties as attn_implementation are asked for."""
    result = dict(getattr(config, "__dict__", {}))
    for name in ("model_type", "_attn_implementation", "dtype", "_commit_hash", "_name_or_path"):
        with suppress(Exception):
            value = getattr(config, name, None)
            if value is not None:
                result[name] = value
    return result


def _parameters(found: Found, given: Any) -> None:
    """How many parameters there are, how many train, in which types."""
    parameters = getattr(given, "parameters", None)
    if not callable(parameters):
        return
    count = trained = 0
    types: dict[str, int] = {}
    for number, each in enumerate(parameters()):
        if number >= _MOST or (number % 256 == 255 and found.late):
            found.miss("model.parameters", "too many to count in the time there is")
            return
        size = int(each.numel())
        count += size
        trained += size if each.requires_grad else 0
        name = str(each.dtype).removeprefix("torch.")
        types[name] = types.get(name, 0) + size
    found.put("model.parameters", count)
    found.put("model.trainable", trained)
    found.put("model.dtypes", ", ".join(f"{name} {share}" for name, share in sorted(types.items())) or None)
    with suppress(Exception):
        # The newer name first: transformers warns of the older one.
        for name in ("is_activation_checkpointing", "is_gradient_checkpointing"):
            value = getattr(given, name, None)
            if value is not None:
                found.put("model.gradient_checkpointing", bool(value))
                break


def _adapters(found: Found, inner: Any) -> None:
    configs = getattr(inner, "peft_config", None)
    if not isinstance(configs, dict):
        return
    for name, config in configs.items():
        for field in _ADAPTER:
            value = getattr(config, field, None)
            if isinstance(value, (set, frozenset)):
                value = sorted(value)
            if value is not None:
                found.put(f"model.adapter.{name}.{field}", value)


def _quantization(found: Found, config: object) -> None:
    held = config if isinstance(config, dict) else getattr(config, "__dict__", {})
    for key, value in held.items():
        if value is not None and not isinstance(value, (dict, list, tuple, set)):
            found.put(f"model.quantization.{str(key).lstrip('_')}", value)
