"""transformers' classes of older releases on padded batches: the collator's mask has a zero. Only what runs otherwise
with it: eager attention has a mask anyway.

  python -m tools.frameworks.record old_transformers_padded PATH transformers-4.45-padded --version transformers=4.45.2
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from oomph.tracing.programs.forward import Build, text_batch
from tools.frameworks import old_transformers
from tools.frameworks.recordings import Recording

STAND_INS = old_transformers.STAND_INS
BARE = old_transformers.BARE
#: gpt_bigcode makes its masks itself, from a buffer.
FAMILIES = tuple(each for each in old_transformers.FAMILIES if each != "gpt_bigcode")
TIES = old_transformers.TIES


def recordings(family: str) -> Iterator[Recording]:
    """Those of the same classes without eager attention."""
    for each in old_transformers.recordings(family):
        if each.attention != "eager":
            yield replace(each, batch=_padded, build=partial(_build, each.build))


def _padded(dimensions: Mapping[str, int]) -> Mapping[str, Any]:
    """The last token of the first sample is padding."""
    batch = text_batch(dimensions)
    batch["attention_mask"][0, -1] = 0
    return batch


def _build(original: Build, dimensions: Mapping[str, int]) -> Any:
    """The model, and what these releases take from the package flash_attn (bert_padding.py: a gather of rows, and zeros
    that rows are put into)."""
    from transformers import modeling_flash_attention_utils as utilities

    vars(utilities).update(index_first_axis=_index_first_axis, pad_input=_pad_input)
    return original(dimensions)


def _index_first_axis(rows: Any, indices: Any) -> Any:
    return rows[indices]


def _pad_input(rows: Any, indices: Any, batch: int, sequence: int) -> Any:
    whole = rows.new_zeros((batch * sequence, *rows.shape[1:]))
    whole[indices] = rows
    return whole.view(batch, sequence, *rows.shape[1:])
