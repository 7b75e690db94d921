"""A real run's snapshot beside a trace of the same script: where their events part."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from oomph.diagnose.snapshot.analysis import Analysis
from oomph.diagnose.snapshot.compare_sides import Named
from oomph.diagnose.trace.diverge import Divergence, diverge


def divergence_of(sides: Sequence[Named]) -> Divergence | None:
    """Where the events of a real run and of a trace part; None unless one of the two sides is each, with events."""
    traced = [side.analysis for side in sides if side.analysis.snapshot.traced is not None]
    real = [side.analysis for side in sides if side.analysis.snapshot.traced is None]
    if len(traced) != 1 or len(real) != 1 or not (len(traced[0].timeline) and len(real[0].timeline)):
        return None
    return between(real[0], traced[0])


def in_windows(sides: Sequence[Named]) -> list[Named]:
    """The sides of a comparison, a trace as the real run beside it was recorded: where its script recorded only a part,
    the peak of that part is what can be compared."""
    if len({side.analysis.snapshot.traced is None for side in sides}) == 1:
        return list(sides)
    return [replace(side, analysis=_in_window(side.analysis)) for side in sides]


def _in_window(analysis: Analysis) -> Analysis:
    traced = analysis.snapshot.traced
    windows = () if traced is None else traced.windows.get(analysis.index, ())
    if not windows or windows[-1][0] == windows[-1][1] or analysis.moment.kind != "peak allocated":
        return analysis
    return Analysis(analysis.snapshot, analysis.index, within=windows[-1])


def between(real: Analysis, traced: Analysis) -> Divergence:
    """The same for two analyses that are known to be a real run and a trace."""
    known = traced.snapshot.traced
    windows = () if known is None else known.windows.get(traced.index, ())
    start = real.start
    nothing = not start.reserved_bytes and not any(segment.blocks for segment in start.segments)
    return diverge(
        real.timeline,
        traced.timeline,
        windows[-1] if windows else None,
        from_nothing=nothing,
    )


def notes_on(divergence: Divergence | None) -> Iterator[str]:
    """What weakens the answer, a sentence each."""
    if divergence is None:
        return
    if not divergence.sure_of_begin:
        yield (
            "the recording began when memory was in use, and the trace does not say where: its beginning was taken "
            f"to be event {divergence.began_at:,} of the trace, from where both are the same for longest"
        )
    if not divergence.complete:
        yield "the two runs are too unlike to be laid over each other to their ends"
