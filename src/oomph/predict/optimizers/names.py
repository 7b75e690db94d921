"""Which parameters are embeddings and which are output layers, by their names."""

from __future__ import annotations

import re

_EMBEDDING = re.compile(r"(^|\.)(embed_\w+|embeddings?|wte|wpe|tok_embeddings|\w+_embeddings?|shared)(\.|$)")
_HEAD = re.compile(r"(^|\.)(lm_head|embed_out|output|classifier|score|head)(\.|$)")


def is_embedding(name: str) -> bool:
    """Whether a parameter of this name is that of an nn.Embedding (embed_tokens, wte, word_embeddings, ...)."""
    return _EMBEDDING.search(name) is not None


def is_head(name: str) -> bool:
    """Whether a parameter of this name is that of an output layer (lm_head, embed_out, ...)."""
    return _HEAD.search(name) is not None
