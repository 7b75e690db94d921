"""`DataLoader`: batches are made in this process, since a worker could not be looked into."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from oomph.tracing.recorder.recorder import Recorder

#: Arguments that only workers have, with what they are without.
_WORKERS = {
    "num_workers": 0,
    "prefetch_factor": None,
    "persistent_workers": False,
    "multiprocessing_context": None,
    "timeout": 0,
}
_NOTE = "Data loaders run without worker processes: batches are the same, and made in turn."


def install(recorder: Recorder) -> None:
    """No loader starts workers."""

    def hook(name: str) -> Callable[[ModuleType], None]:
        return lambda module: _wrap(recorder, getattr(module, name, None))

    recorder.patches.when_imported("torch.utils.data.dataloader", hook("DataLoader"))
    recorder.patches.when_imported(
        "torchdata.stateful_dataloader.stateful_dataloader", hook("StatefulDataLoader")
    )


def _wrap(recorder: Recorder, kind: Any) -> None:
    if kind is None:
        return
    signature = inspect.signature(kind.__init__)

    def init(original: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        try:
            given = signature.bind(*args, **kwargs)
        except TypeError:
            original(*args, **kwargs)  # says what is wrong
            return
        if given.arguments.get("num_workers"):
            recorder.note(_NOTE)
            for name, value in _WORKERS.items():
                if name in given.arguments:
                    given.arguments[name] = value
        original(*given.args, **given.kwargs)

    recorder.patches.wrap(kind, "__init__", init)
