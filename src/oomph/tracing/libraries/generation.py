"""`generate` of transformers: no sequence meets its end early, because which token comes is not known.

The loop runs to the longest length that it may have, which is what needs the most memory.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any

from oomph.phases import Phase
from oomph.tracing.libraries import during

if TYPE_CHECKING:
    from oomph.tracing.recorder.recorder import Recorder

ASSUMED = (
    "generated sequences run to their longest length: which tokens come, and so which end early, is not known"
)
#: Criteria that look at the tokens.
_BY_TOKENS = ("EosTokenCriteria", "StopStringCriteria", "ConfidenceCriteria")


def install(recorder: Recorder) -> None:
    """Generation has its own phase, and ends at its longest length."""

    def criteria(module: ModuleType) -> None:
        for name in _BY_TOKENS:
            if hasattr(module, name):
                during.wrap(recorder, getattr(module, name), "__call__", _never(recorder))

    def utils(module: ModuleType) -> None:
        mixin = module.GenerationMixin
        during.wrap(recorder, mixin, "generate", _in_phase(recorder))
        if hasattr(mixin, "_beam_search_has_unfinished_sequences"):
            function = mixin._beam_search_has_unfinished_sequences  # noqa: SLF001
            recorder.patches.set(mixin, function.__name__, staticmethod(_unfinished(recorder, function)))

    recorder.patches.when_imported("transformers.generation.stopping_criteria", criteria)
    recorder.patches.when_imported("transformers.generation.utils", utils)


def _never(recorder: Recorder) -> Callable[..., Any]:
    def call(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        import torch

        from oomph.tracing.recorder.values import attach

        done = original(*args, **kwargs)
        if hasattr(done, "fake_device"):
            recorder.assume(ASSUMED)
            attach(done, torch.zeros(tuple(done.shape), dtype=done.dtype))
        return done

    return call


def _in_phase(recorder: Recorder) -> Callable[..., Any]:
    def generate(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        with recorder.phase(Phase.GENERATE):
            return original(*args, **kwargs)

    return generate


def _unfinished(recorder: Recorder, function: Callable[..., Any]) -> Callable[..., Any]:
    """Beam search goes on until every beam has its longest length."""
    names = inspect.signature(function)

    def unfinished(*args: Any, **kwargs: Any) -> Any:
        from oomph.tracing.recorder.values import value_of

        hits = names.bind(*args, **kwargs).arguments.get("next_token_hits_stopping_criteria")
        if hits is None or not hasattr(hits, "fake_device"):
            return function(*args, **kwargs)
        recorder.assume(ASSUMED)
        known = value_of(hits)
        return known is None or not bool(known.all())

    return unfinished
