"""`torch.compile` in a script: the model is traced as it would run without, and that is said."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oomph.tracing.libraries import during

if TYPE_CHECKING:
    from oomph.tracing.recorder.recorder import Recorder

NOTE = (
    "torch.compile was left out: the model is traced eager. Compiled code fuses operators and may recompute, so the "
    "real run allocates fewer temporaries and may save fewer activations, in an order that this trace does not know"
)


def install(recorder: Recorder) -> None:
    """`torch.compile` and `Module.compile` give back what they got."""
    import torch

    def compile_(model: Any = None, *_args: Any, **_kwargs: Any) -> Any:
        if model is None:
            return compile_
        if isinstance(model, torch.nn.Module):
            recorder.note(NOTE)
            return model
        return _noted(recorder, model)

    def compile_module(_module: Any, *_args: Any, **_kwargs: Any) -> None:
        recorder.note(NOTE)

    recorder.patches.set(torch, "compile", compile_)
    if hasattr(torch.nn.Module, "compile"):
        recorder.patches.set(torch.nn.Module, "compile", compile_module)
    if hasattr(getattr(torch, "compiler", None), "cudagraph_mark_step_begin"):
        # It would import the machinery of CUDA graphs, which a build without CUDA does not have.
        recorder.patches.set(torch.compiler, "cudagraph_mark_step_begin", lambda: None)
    recorder.patches.when_imported(
        "torch._dynamo", lambda module: recorder.patches.set(module, "reset", lambda: None)
    )


def _noted(recorder: Recorder, function: Any) -> Any:
    """The function, which says so when it runs: libraries decorate ones that nobody calls."""

    def run(original: Any, *args: Any, **kwargs: Any) -> Any:
        recorder.note(NOTE)
        return original(*args, **kwargs)

    return during.function(recorder, function, run)
