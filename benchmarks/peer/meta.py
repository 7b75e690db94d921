"""The row's model as transformers builds it, without memory: what programs that take a module are given."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

from benchmarks.peer.row import CannotError

_DTYPES = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}


@functools.lru_cache(maxsize=2)
def model(config: Path, dtype: str) -> Any:
    """The model of a config.json on the meta device, with weights of `dtype` (fp32, bf16, fp16). Raises CannotError
    where transformers does not build it."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSeq2SeqLM

    read = AutoConfig.from_pretrained(str(config))
    builder = AutoModelForSeq2SeqLM if read.is_encoder_decoder else AutoModelForCausalLM
    try:
        with torch.device("meta"):
            return builder.from_config(read, dtype=getattr(torch, _DTYPES[dtype]))
    except (ValueError, KeyError) as error:
        raise CannotError(f"transformers does not build the model: {error}") from error


def parameters(config: Path) -> int:
    """How many parameters the model has, tied ones once."""
    return sum(each.numel() for each in model(config, "fp32").parameters())
