"""A stand-in for the flash_attn package, for models that are asked to use it (attn_implementation).

It allocates what flash-attn 2 does on the device, as its sources show (csrc/flash_attn/flash_api.cpp and
flash_attn_interface.py of release 2.8): forward keeps the result, one float32 per row and head, and the random state;
backward makes the gradients, two accumulators in float32, and full heads of keys and values where they are shared.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any

from oomph.tracing.libraries import during
from oomph.tracing.libraries.flash_memory import attention

if TYPE_CHECKING:
    from oomph.tracing.recorder.recorder import Recorder

_NAME = "flash_attention_2"
_ASSUMED = (
    "flash_attn is a stand-in that allocates what release 2.8 of the package does, without its split-KV buffers (short "
    "inference)"
)


def install(recorder: Recorder) -> None:
    """A model that asks for flash_attention_2 gets the stand-in."""
    stand_in = _StandIn(recorder)

    def models(module: ModuleType) -> None:
        owner = module.PreTrainedModel
        for name in ("_check_and_adjust_attn_implementation", "_check_and_enable_flash_attn_2"):
            if hasattr(owner, name) and not isinstance(vars(owner).get(name), classmethod):
                during.wrap(recorder, owner, name, stand_in.asked)
        if hasattr(owner, "_flash_attn_import_error"):
            during.wrap(recorder, owner, "_flash_attn_import_error", stand_in.missing)

    def functions(module: ModuleType) -> None:
        during.wrap(recorder, module, "is_flash_attn_2_available", stand_in.available)
        if hasattr(module, "_loaded_implementation"):
            recorder.patches.set(module, "_loaded_implementation", None)

    recorder.patches.when_imported("transformers.modeling_utils", models)
    recorder.patches.when_imported("transformers.modeling_flash_attention_utils", functions)


class _StandIn:
    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._there = False

    def asked(self, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """A model chooses its attention."""
        if _NAME in args or _NAME in kwargs.values():
            self._bring()
        return original(*args, **kwargs)

    def available(self, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Whether the package is there."""
        return self._there or original(*args, **kwargs)

    def missing(self, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """transformers' check that says what is missing."""
        version = kwargs.get("flash_attn_version", 2)
        return None if self._there and version == 2 else original(*args, **kwargs)

    def _bring(self) -> None:
        self._recorder.assume(_ASSUMED)
        if self._there:
            return
        self._there = True
        package = ModuleType("flash_attn")
        padding = ModuleType("flash_attn.bert_padding")
        functions: Any = package
        functions.__version__ = "2.8.3"
        functions.__path__ = []
        functions.flash_attn_func = flash_attn_func
        functions.flash_attn_varlen_func = flash_attn_varlen_func
        functions.flash_attn_with_kvcache = flash_attn_with_kvcache
        functions.bert_padding = padding
        from transformers import modeling_flash_attention_utils as utilities

        helpers: Any = padding
        helpers.pad_input = utilities._pad_input  # noqa: SLF001 - its own copy of the package's function
        helpers.unpad_input = utilities._unpad_input  # noqa: SLF001
        for module in (package, padding):
            self._put(module)

    def _put(self, module: ModuleType) -> None:
        before = sys.modules.get(module.__name__)
        sys.modules[module.__name__] = module

        def undo() -> None:
            if before is None:
                sys.modules.pop(module.__name__, None)
            else:
                sys.modules[module.__name__] = before

        self._recorder.patches.when_undone(undo)


def flash_attn_func(
    q: Any,
    k: Any,
    v: Any,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Any = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
) -> Any:
    """Attention of (batch, length, heads, head) tensors."""
    del dropout_p, softmax_scale, causal, window_size, softcap, alibi_slopes
    out = attention(q, k, v, 0, deterministic)
    return (out, None, None) if return_attn_probs else out


def flash_attn_varlen_func(
    q: Any,
    k: Any,
    v: Any,
    cu_seqlens_q: Any,
    cu_seqlens_k: Any,
    max_seqlen_q: int,
    max_seqlen_k: int,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Any = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
    block_table: Any = None,
) -> Any:
    """Attention of sequences laid end to end: (tokens, heads, head)."""
    del cu_seqlens_k, max_seqlen_q, max_seqlen_k, dropout_p, softmax_scale, causal, window_size, softcap
    del alibi_slopes, block_table
    out = attention(q, k, v, int(cu_seqlens_q.numel()) - 1, deterministic)
    return (out, None, None) if return_attn_probs else out


def flash_attn_with_kvcache(*_args: Any, **_kwargs: Any) -> Any:
    """Paged attention of inference engines."""
    from oomph.tracing.libraries.refusals import NotTraceableError

    raise NotTraceableError("flash_attn")
