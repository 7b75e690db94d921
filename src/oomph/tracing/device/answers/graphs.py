"""CUDA graphs: refused, because a capture keeps a private pool whose life a trace does not follow."""

from __future__ import annotations

from typing import Any, NoReturn

from oomph.tracing.device.answers.state import State
from oomph.tracing.errors import TraceRefused

_WHAT = (
    "{name} cannot be traced: a CUDA graph keeps a memory pool of its own; run the trace with CUDA graphs switched off "
    "(for torch.compile: another mode than reduce-overhead)."
)


def install(state: State) -> None:
    """Nothing is ever being captured, and nothing can be."""
    cuda = state.cuda

    def capturing() -> bool:
        return False

    state.answer(_cuda_isCurrentStreamCapturing=capturing)
    state.replace(cuda.graphs, _cuda_isCurrentStreamCapturing=capturing)
    refused = {
        "CUDAGraph": _refusing_class("torch.cuda.CUDAGraph"),
        "graph": _refusing_class("torch.cuda.graph"),
        "make_graphed_callables": _refusing("torch.cuda.make_graphed_callables"),
        "graph_pool_handle": _refusing("torch.cuda.graph_pool_handle"),
    }
    for owner in (cuda, cuda.graphs):
        state.replace(owner, **refused)
    accelerator = getattr(state.torch, "accelerator", None)
    if accelerator is not None:
        state.replace(accelerator, Graph=_refusing_class("torch.accelerator.Graph"))


def _refusing(name: str) -> Any:
    def refuse(*_: object, **__: object) -> NoReturn:
        raise TraceRefused(_WHAT.format(name=name))

    return refuse


def _refusing_class(name: str) -> type:
    """A class, since scripts test with isinstance."""

    def refuse(*_: object, **__: object) -> NoReturn:
        raise TraceRefused(_WHAT.format(name=name))

    return type(name.rsplit(".", 1)[-1], (), {"__new__": refuse})
