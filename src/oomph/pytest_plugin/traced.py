"""Measuring without a GPU: the test runs on fake tensors, and a GPU's memory is computed."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

from oomph.errors import UsageError
from oomph.phases import Phase
from oomph.pytest_plugin.measured import Measured, Peak


class TraceMeter:
    """Traces the test as `oomph.trace()` does. Phases are found by the tracer, or said by the test."""

    device = "cuda"

    def __init__(self, gpu: str) -> None:
        from oomph.api import trace

        self._gpu = gpu
        self._tracing = trace(gpu=gpu or None)

    def start(self) -> None:
        """From here on torch's CUDA devices are simulated."""
        self._tracing.__enter__()

    def stop(self, error: BaseException | None) -> tuple[Measured, bool]:
        """The end; a request that found no memory on the traced GPU is no exception of the test's."""
        ended = self._tracing.__exit__(type(error) if error else None, error, None)
        report = self._tracing.report
        prediction = self._tracing.prediction
        phases = {
            phase: Peak(
                its.allocated_bytes,
                its.reserved_bytes,
                max(its.allocated_bytes, its.allocated_high_bytes or 0) + its.uncertain_bytes,
                its.most_bytes,
            )
            for phase, its in prediction.phases.items()
        }
        failed = report.failed if report.failed is not None and report.failed.out_of_memory else None
        shown = report.snapshot.devices[report.snapshot.shown] if report.snapshot.devices else None
        shares: Sequence[tuple[str, int]] = (
            ()
            if shown is None
            else sorted(((str(one.category), one.bytes) for one in shown.shares), key=lambda pair: -pair[1])
        )
        measured = Measured(
            f"traced without a GPU, as on {report.gpu or 'a GPU'}",
            phases,
            ran_out="" if failed is None else " ".join(failed.text.split())[:300],
            categories=lambda: shares,
            notes=tuple(report.assumptions[:3]),
        )
        return measured, bool(ended)

    def phase(self, name: str) -> AbstractContextManager[None]:
        """A phase of the tracer's."""
        from oomph.tracing.recorder.recorder import current

        recorder = current()
        if recorder is None:
            return nullcontext()
        try:
            return recorder.phase(Phase(name))
        except ValueError:
            raise UsageError(f"there is no phase {name[:60]!r}") from None

    def watch(self, model: object, optimizer: object) -> None:
        """The tracer watches all of them."""
