"""transformers' classes of older releases, whose loss and attention are written otherwise than today's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from tools.frameworks.recordings import Loss, Recording

STAND_INS: tuple[str, ...] = ()
BARE: tuple[str, ...] = ()
_TIED = {"lm_head.weight": "model.embed_tokens.weight"}
FAMILIES = ("llama", "mistral", "granite", "mixtral", "gpt_bigcode", "qwen2")
TIES = dict.fromkeys(FAMILIES, _TIED) | {"gpt_bigcode": {"lm_head.weight": "transformer.wte.weight"}}
_ATTENTION = ("flash_attention_2", "sdpa", "eager")
_PRECISIONS = ("bf16", "bf16-autocast", "fp32-autocast", "fp32")
_HEADS = {
    "llama": ("grouped", "equal"),
    "granite": ("grouped", "equal"),
    "mistral": ("grouped",),
    "mixtral": ("grouped",),
    "gpt_bigcode": ("single",),
    "qwen2": ("grouped",),
}
#: Mixtral's (num_local_experts, num_experts_per_tok), of all its published checkpoints.
_EXPERTS, _CHOSEN = 8, 2


def recordings(family: str) -> Iterator[Recording]:
    """Every attention in bf16, under bf16 autocast with weights of either type, and in fp32."""
    bigcode = family == "gpt_bigcode"
    for heads in _HEADS[family]:
        # eager gpt_bigcode scales each layer by its number, which no program can say
        for attention in _ATTENTION[:2] if bigcode or family == "mixtral" else _ATTENTION:
            for precision in _PRECISIONS[: 3 if family == "mixtral" else 4]:
                if (attention, precision) == ("flash_attention_2", "fp32"):
                    continue
                # of these, santacoder and its like alone drop by their defaults
                for dropout in (False, True) if bigcode and precision.startswith("bf16") else (False,):
                    yield Recording(
                        build=partial(_build, family, attention, dropout),
                        layers="transformer.h" if bigcode else "model.layers",
                        losses=(Loss("eager_fp32", _run, "lm_head"),),
                        heads=heads,
                        precision=precision,
                        attention=attention,
                        hidden=False,
                        dropout=dropout,
                    )


def _build(family: str, attention: str, dropout: bool, dimensions: Mapping[str, int]) -> Any:
    import transformers

    if attention == "flash_attention_2":
        _flash(family)
    config = transformers.AutoConfig.for_model(family, **_config(family, dropout, dimensions))
    if family == "mixtral":
        _evenly()
    return transformers.AutoModelForCausalLM.from_config(config, attn_implementation=attention)


def _config(family: str, dropout: bool, dimensions: Mapping[str, int]) -> dict[str, Any]:
    if family == "gpt_bigcode":
        drops = {} if dropout else dict.fromkeys(("attn_pdrop", "embd_pdrop", "resid_pdrop"), 0.0)
        return {
            "vocab_size": dimensions["vocab"],
            "n_embd": dimensions["hidden"],
            "n_inner": dimensions["intermediate"],
            "n_layer": dimensions["layers"],
            "n_head": dimensions["heads"],
            "n_positions": dimensions["positions"],
            "bos_token_id": 0,
            "eos_token_id": 0,
            **drops,
        }
    config = {
        "vocab_size": dimensions["vocab"],
        "hidden_size": dimensions["hidden"],
        "intermediate_size": dimensions["intermediate"],
        "num_hidden_layers": dimensions["layers"],
        "num_attention_heads": dimensions["heads"],
        "num_key_value_heads": dimensions["kv_heads"],
        "max_position_embeddings": dimensions["positions"],
        "pad_token_id": None,
    }
    return {**config, "sliding_window": None} if family == "mistral" else config


def _evenly() -> None:
    """Every expert gets its share of the tokens, which only a GPU would know: `torch.where` of a row of the mask."""
    import torch
    from transformers.models.mixtral import modeling_mixtral

    class Even:
        """torch, with a `where` that finds as many as an even router would send."""

        def __getattr__(self, name: str) -> Any:
            return getattr(torch, name)

        def where(self, mask: Any) -> Any:
            """The places of the tokens of one expert: (which of the chosen, which token)."""
            found = torch.zeros((mask.numel() // _EXPERTS, mask.dim()), dtype=torch.int64, device=mask.device)
            return found.unbind(1)

    modeling_mixtral.torch = Even()


def _flash(family: str) -> None:
    """Gives these releases the stand-in for flash_attn that `oomph trace` has, past their search for the package."""
    import importlib

    from transformers import modeling_flash_attention_utils as utilities
    from transformers.modeling_utils import PreTrainedModel

    from oomph.tracing.libraries import flash

    def there(_cls: Any, config: Any, *_args: Any, **_kwargs: Any) -> Any:
        vars(config)["_attn_implementation_internal"] = "flash_attention_2"
        return config

    type.__setattr__(PreTrainedModel, "_check_and_enable_flash_attn_2", classmethod(there))
    # a model's module imports the latter two only where the package is found
    modeling = importlib.import_module(f"transformers.models.{family}.modeling_{family}")
    vars(utilities).update(
        flash_attn_func=flash.flash_attn_func,
        flash_attn_varlen_func=flash.flash_attn_varlen_func,
        _flash_supports_window_size=True,
    )
    vars(modeling).update(
        _flash_attention_forward=vars(utilities)["_flash_attention_forward"],
        _flash_supports_window_size=True,
    )


def _run(net: Any, batch: Mapping[str, Any], dimensions: Mapping[str, int]) -> dict[str, Any]:
    """The class's own loss. No cache: checkpointing and trainers of that time switch it off. No mask: packed texts have
    none, and a mask of ones is left out by the classes."""
    del dimensions
    out = net(**batch, use_cache=False)
    return {"loss": out.loss, "logits": out.logits}
