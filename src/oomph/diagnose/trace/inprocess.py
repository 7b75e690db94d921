"""A trace in this very process: for notebooks and tests."""

from __future__ import annotations

import os
import pickle
import sys
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any

from oomph.diagnose.trace.model import TraceReport
from oomph.errors import UsageError
from oomph.memory.prediction import Prediction
from oomph.tracing.settings import TraceSettings

if TYPE_CHECKING:
    from oomph.tracing.model import Failed, Trace
    from oomph.tracing.session import Session


class Tracing:
    """Context manager: what runs in its block runs on simulated GPUs.

    After the block, `prediction` says what the fullest GPU needs, `report` all else, `trace` is the raw trace, and
    `save` writes it as a memory snapshot. The block ends early, without an exception, after `settings.steps` optimizer
    steps, and where the simulated GPU is full and nothing in the block catches that: `report.failed` tells. Every other
    exception goes on its way.
    """

    def __init__(self, settings: TraceSettings, notes: tuple[str, ...] = (), command: str = "") -> None:
        self.settings = settings
        self._notes = notes
        self._command = command
        self._session: Session | None = None
        self._trace: Trace | None = None
        self._report: TraceReport | None = None

    def __enter__(self) -> Tracing:
        from oomph.tracing.recorder.recorder import current
        from oomph.tracing.session import Session

        if current() is not None:
            raise UsageError("A trace is running already: one cannot begin inside another.")
        if self._session is not None:
            raise UsageError("This trace is over: make another with oomph.trace().")
        self._session = Session(self.settings)
        self._session.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> bool:
        assert self._session is not None, "the block was not entered"
        ended = self._session.__exit__(kind, error, where)
        failed = None if error is None or ended else _failed(error)
        self._trace = self._session.trace(failed=failed)
        return ended or (failed is not None and failed.out_of_memory)

    @property
    def trace(self) -> Trace:
        """What was recorded. Raises UsageError before the block has ended."""
        if self._trace is None:
            raise UsageError("The traced block has not ended yet: ask after it.")
        return self._trace

    @property
    def report(self) -> TraceReport:
        """The whole answer. Raises UsageError before the block has ended."""
        if self._report is None:
            self._report = self._reported(self.trace)
        return self._report

    @property
    def prediction(self) -> Prediction:
        """What the fullest GPU needs, phase by phase, and whether it fits; of a block that allocated nothing, zeros.
        Raises UsageError before the block has ended."""
        shown = self.report.shown
        if shown is None:
            return Prediction.judged(self.trace.rank, 0, {}, self.trace.capacity_bytes)
        return shown.prediction

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the trace as a memory snapshot, for `oomph snapshot` and PyTorch's own viewer. Raises UsageError where
        it cannot be written, or before the block has ended."""
        from oomph.tracing.write import write

        write(self.trace, path)

    def _reported(self, trace: Trace) -> TraceReport:
        from oomph.diagnose.snapshot.build import analyse, report_of
        from oomph.diagnose.trace.build import trace_report
        from oomph.evidence.snapshot import from_bytes
        from oomph.evidence.snapshot.unpickle import without_collector
        from oomph.tracing.write import content

        with without_collector():
            snapshot = from_bytes(pickle.dumps(content(trace), protocol=4), "the trace")
            analyses = analyse(snapshot)
            report = trace_report(
                report_of(snapshot, analyses=analyses), snapshot.traced, analyses, self._command
            )
        return replace(report, notes=(*report.notes, *self._notes))


def run_function(tracing: Tracing, function: Any, keywords: dict[str, Any]) -> Tracing:
    """Calls a function inside `tracing`: one that is given, or "module:name", whose module is imported there.

    Raises UsageError for text of another form, and for a module that has no such function.
    """
    with tracing:
        called = _found(function) if isinstance(function, str) else function
        called(**keywords)
    return tracing


def _found(text: str) -> Any:
    import importlib

    module, colon, name = text.partition(":")
    if not colon or not module or not name:
        raise UsageError(f"{text[:200]!r} is no function: write module:function")
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        raise UsageError(f"{module} has no function {name}.")
    return found


def _failed(error: BaseException) -> Failed:
    """How the block ended; the frames of the tracer are taken out of the exception's traceback."""
    from oomph.tracing.child import tracebacks
    from oomph.tracing.model import Failed

    tracebacks.strip(error)
    kind = type(error)
    inside = kind.__module__ in ("builtins", "__main__")
    return Failed(
        kind=kind.__qualname__ if inside else f"{kind.__module__}.{kind.__qualname__}",
        text=str(error),
        traceback=tracebacks.text(error),
        out_of_memory=_is_out_of_memory(error),
    )


def _is_out_of_memory(error: BaseException) -> bool:
    """Whether the simulated GPU was full. PyTorch is there: it ran the block."""
    torch = sys.modules.get("torch")
    full = getattr(torch, "OutOfMemoryError", None) or getattr(
        getattr(torch, "cuda", None), "OutOfMemoryError", None
    )
    return full is not None and isinstance(error, full)
