"""The answer as a JSON document of a stable, published shape (`schema/trace.schema.json`)."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from oomph import __version__
from oomph.diagnose.trace import model
from oomph.memory import prediction
from oomph.report import schemas
from oomph.report.options import ReportOptions
from oomph.report.snapshot.json import Shared, Writer
from oomph.report.trace import wire
from oomph.report.trace.view import TraceView, prepare
from oomph.report.trace.words import headline


def render_json(
    reports: Sequence[model.TraceReport], options: ReportOptions, largest: wire.Largest | None = None
) -> str:
    """The whole answer for the traced ranks of one job, indented, in UTF-8 characters, ending in a newline."""
    shared = Shared()
    writer = Writer(shared)
    answer = wire.Report(
        schema_version="1",
        oomph_version=__version__,
        exit_code=exit_code(reports),
        traces=[_trace(view, writer) for view in prepare(reports, options)],
        stacks=shared.stacks,
        frames=shared.frames,
        largest=largest,
    )
    return msgspec.json.format(msgspec.json.encode(answer), indent=2).decode() + "\n"


def exit_code(reports: Sequence[model.TraceReport]) -> int:
    """Of all ranks: 1 where one runs out of memory, else 2 where one has no answer, else 0."""
    codes = {report.exit_code for report in reports}
    return 1 if 1 in codes else max(codes, default=2)


def read_schema() -> str:
    """The published JSON Schema of what `render_json` returns."""
    return schemas.published("trace")


def schema_text() -> str:
    """The JSON Schema, generated from `wire`; the published file must equal it."""
    return schemas.generated("trace", wire.SCHEMA_VERSION, wire.Report)


def _trace(view: TraceView, writer: Writer) -> wire.Trace:
    report, failed = view.report, view.report.failed
    return wire.Trace(
        summary=headline(report),
        exit_code=report.exit_code,
        command=report.command,
        rank=report.rank,
        world=report.world,
        gpu=report.gpu,
        torch=report.torch,
        installed_torch=report.installed_torch,
        capacity_bytes=report.capacity_bytes,
        fits=report.fits,
        shown=report.snapshot.shown,
        devices=[_device(device) for device in report.devices],
        steps_done=report.steps_done,
        operators=report.operators,
        seconds=report.seconds,
        uncertain_bytes=report.uncertain_bytes,
        suppressed=list(report.suppressed),
        unruled=[
            wire.Unruled(operator=one.operator, times=one.times, largest_bytes=one.largest_bytes)
            for one in report.unruled
        ],
        assumptions=list(report.assumptions),
        notes=list(report.notes),
        failed=None
        if failed is None
        else wire.Failed(
            kind=failed.kind,
            text=failed.text,
            traceback=failed.traceback,
            out_of_memory=failed.out_of_memory,
        ),
        snapshot=writer.snapshot(view.snapshot),
        unfinished=report.unfinished,
    )


def _device(device: model.DeviceTrace) -> wire.Device:
    predicted = device.prediction
    return wire.Device(
        index=device.index,
        fits=predicted.fits,
        fails_in=None if predicted.fails_in is None else predicted.fails_in.value,
        surely_fails=device.surely_fails,
        orders_played=predicted.orders_played,
        orders_failed=predicted.orders_failed,
        orders=device.orders,
        peak=_peak(predicted.peak),
        peak_phase=None if device.peak_phase is None else device.peak_phase.value,
        phases=[
            wire.PhasePeak(
                phase=row.phase.value,
                peak=_peak(predicted.phases[row.phase]),
                allocated_at=row.allocated_at,
                reserved_at=row.reserved_at,
            )
            for row in device.phases
        ],
        first_step=_step(device.first_step),
        fullest_step=_step(device.fullest_step),
        activations=[_part(part) for part in device.activations],
        temporaries=[_part(part) for part in device.temporaries],
        notes=list(predicted.notes),
    )


def _peak(peak: prediction.Peak) -> wire.Peak:
    return wire.Peak(
        allocated_bytes=peak.allocated_bytes,
        reserved_bytes=peak.reserved_bytes,
        reserved_low_bytes=peak.reserved_low_bytes,
        reserved_high_bytes=peak.reserved_high_bytes,
        uncertain_bytes=peak.uncertain_bytes,
        most_bytes=peak.most_bytes,
    )


def _step(step: model.StepPeak | None) -> wire.StepPeak | None:
    if step is None:
        return None
    return wire.StepPeak(
        step=step.step, allocated_bytes=step.allocated_bytes, reserved_bytes=step.reserved_bytes
    )


def _part(part: model.Part) -> wire.Part:
    return wire.Part(
        label=part.label,
        bytes=part.bytes,
        blocks=part.blocks,
        largest_bytes=part.largest_bytes,
        times=part.times,
    )
