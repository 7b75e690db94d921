"""The answer as a JSON document of a stable, published shape (`schema/snapshot.schema.json`)."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from oomph import __version__
from oomph.diagnose.snapshot import model
from oomph.diagnose.snapshot.compare_model import SnapshotComparison
from oomph.memory import stacks
from oomph.report import schemas
from oomph.report.json import wire_advice, wire_finding, wire_ledger
from oomph.report.options import ReportOptions
from oomph.report.snapshot import wire
from oomph.report.snapshot.view import SnapshotView, prepare_all
from oomph.report.snapshot.wire_parts import Frame
from oomph.report.snapshot.words import headline
from oomph.report.wire import RuledOut


def render_json(report: model.SnapshotReport, options: ReportOptions) -> str:
    """The whole answer for one snapshot, indented, in UTF-8 characters, ending in a newline."""
    return document(prepare_all([report], options))


def document(
    views: Sequence[SnapshotView],
    comparison: SnapshotComparison | None = None,
    unreadable: Sequence[str] = (),
) -> str:
    """The document of several snapshots; `unreadable` are the sentences about files that could not be read."""
    from oomph.report.snapshot.json_compare import wire_comparison

    shared = Shared()
    writer = Writer(shared)
    snapshots = [writer.snapshot(view) for view in views]
    compared = None if comparison is None else wire_comparison(comparison, shared)
    answer = wire.Report(
        schema_version="1",
        oomph_version=__version__,
        exit_code=max((view.report.exit_code for view in views), default=2),
        snapshots=snapshots,
        comparison=compared,
        stacks=shared.stacks,
        frames=shared.frames,
        unreadable=list(unreadable),
    )
    return msgspec.json.format(msgspec.json.encode(answer), indent=2).decode() + "\n"


def read_schema() -> str:
    """The published JSON Schema of what `render_json` returns."""
    return schemas.published("snapshot")


def schema_text() -> str:
    """The JSON Schema, generated from `wire`; the published file must equal it."""
    return schemas.generated("snapshot", wire.SCHEMA_VERSION, wire.Report)


class Shared:
    """Stacks and frames that a document has once, however often they are named."""

    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self.stacks: list[list[int]] = []
        self._frame_places: dict[stacks.Frame, int] = {}
        self._stack_places: dict[tuple[stacks.Frame, ...], int] = {}

    def stack(self, frames: tuple[stacks.Frame, ...]) -> int | None:
        """The place of a stack; None for an empty one."""
        if not frames:
            return None
        known = self._stack_places.get(frames)
        if known is None:
            known = self._stack_places[frames] = len(self.stacks)
            self.stacks.append([self._frame(frame) for frame in frames])
        return known

    def _frame(self, frame: stacks.Frame) -> int:
        known = self._frame_places.get(frame)
        if known is None:
            known = self._frame_places[frame] = len(self.frames)
            self.frames.append(frame_of(frame))
        return known


def frame_of(frame: stacks.Frame) -> Frame:
    """A frame as the document has it."""
    return Frame(function=frame.function, file=frame.file, line=frame.line)


def place_of(frame: stacks.Frame | None) -> Frame | None:
    """The frame to look at, if there is one."""
    return None if frame is None else frame_of(frame)


class Writer:
    """Turns reports into what the document has."""

    def __init__(self, shared: Shared) -> None:
        self.stack = shared.stack

    def snapshot(self, view: SnapshotView) -> wire.Snapshot:
        """The answer for one file."""
        report = view.report
        return wire.Snapshot(
            source=report.source,
            size_bytes=report.size_bytes,
            format=report.era,
            settings=report.settings,
            exit_code=report.exit_code,
            summary=headline(view),
            shown=report.shown,
            devices=[self._device(device) for device in report.devices],
            findings=[wire_finding(finding) for finding in report.findings],
            ruled_out=[RuledOut(cause=ruled.cause, why=ruled.why) for ruled in report.ruled_out],
            advice=None if report.advice is None else wire_advice(report.advice),
            notes=list(report.notes),
        )

    def _device(self, device: model.DeviceReport) -> wire.Device:
        return wire.Device(
            index=device.index,
            events=device.events,
            moment=self._moment(device.moment),
            ledger=wire_ledger(device.ledger),
            peak_allocated_bytes=device.peak_allocated_bytes,
            peak_reserved_bytes=device.peak_reserved_bytes,
            failures=device.failures,
            failure=None if device.failure is None else self._failure(device.failure),
            shares=[self._share(share) for share in device.shares],
            holders=[self._holder(holder) for holder in device.holders],
            phases={str(phase): size for phase, size in device.phases.items()},
            born_in={str(step): size for step, size in device.born_in.items()},
            pools=[self._pool(pool) for pool in device.pools],
            steps=None if device.steps is None else self._steps(device.steps),
            retries=[self._retry(retry) for retry in device.retries],
            growth=None if device.growth is None else self._growth(device.growth),
            what_if=None if device.what_if is None else self._what_if(device.what_if),
            notes=list(device.notes),
        )

    def _moment(self, moment: model.Moment) -> wire.Moment:
        return wire.Moment(
            kind=moment.kind,
            position=moment.position,
            time_us=moment.time_us,
            after_us=moment.after_us,
            phase=moment.phase.value,
            phase_how=moment.phase_how.value,
            step=moment.step,
            stack=self.stack(moment.frames),
        )

    def _failure(self, failure: model.Failure) -> wire.Failure:
        return wire.Failure(
            position=failure.position,
            verdict=failure.verdict.value,
            certainty=failure.certainty.value,
            says=failure.says,
            caught=failure.caught,
            request_bytes=failure.request_bytes,
            segment_bytes=failure.segment_bytes,
            pool=failure.pool,
            stream=failure.stream,
            small=failure.small,
            hole_bytes=failure.hole_bytes,
            cached_own_bytes=failure.cached_own_bytes,
            cached_bytes=failure.cached_bytes,
            free_bytes=failure.free_bytes,
            reserved_bytes=failure.reserved_bytes,
            allocated_bytes=failure.allocated_bytes,
            available_bytes=failure.available_bytes,
            short_by_bytes=failure.short_by_bytes,
            outside_growth_bytes=failure.outside_growth_bytes,
            pins=[
                wire.Pin(
                    bytes=pin.bytes,
                    hole_bytes=pin.hole_bytes,
                    category=pin.category.value,
                    place=place_of(pin.place),
                    stack=self.stack(pin.frames),
                )
                for pin in failure.pins
            ],
            ruled_out=[RuledOut(cause=ruled.cause, why=ruled.why) for ruled in failure.ruled_out],
            stack=self.stack(failure.frames),
        )

    def _share(self, share: model.Share) -> wire.Share:
        return wire.Share(
            category=share.category.value,
            bytes=share.bytes,
            blocks=share.blocks,
            how=share.how.value,
            certainty=share.certainty.value,
        )

    def _holder(self, holder: model.Holder) -> wire.Holder:
        return wire.Holder(
            bytes=holder.bytes,
            blocks=holder.blocks,
            largest_bytes=holder.largest_bytes,
            category=holder.category.value,
            how=holder.how.value,
            certainty=holder.certainty.value,
            phase=holder.phase.value,
            first_step=holder.first_step,
            last_step=holder.last_step,
            label=holder.label,
            place=place_of(holder.place),
            stack=self.stack(holder.frames),
        )

    def _pool(self, pool: model.PoolUse) -> wire.Pool:
        return wire.Pool(
            pool=pool.pool,
            stream=pool.stream,
            small=pool.small,
            expandable=pool.expandable,
            segments=pool.segments,
            reserved_bytes=pool.reserved_bytes,
            allocated_bytes=pool.allocated_bytes,
            cached_bytes=pool.cached_bytes,
            largest_hole_bytes=pool.largest_hole_bytes,
            holes=pool.holes,
        )

    def _steps(self, steps: model.Steps) -> wire.Steps:
        return wire.Steps(
            count=steps.count,
            how=steps.how.value,
            certainty=steps.certainty.value,
            why=steps.why,
            first_positions=list(steps.first_positions),
        )

    def _retry(self, retry: model.Retry) -> wire.Retry:
        return wire.Retry(
            position=retry.position,
            released_bytes=retry.released_bytes,
            segments=retry.segments,
            request_bytes=retry.request_bytes,
            needed_bytes=retry.needed_bytes,
            bound_bytes=retry.bound_bytes,
            certainty=retry.certainty.value,
            says=retry.says,
            stack=self.stack(retry.frames),
        )

    def _growth(self, growth: model.Growth) -> wire.Growth:
        return wire.Growth(
            says=growth.says,
            steps=growth.steps,
            bytes_per_step=growth.bytes_per_step,
            fails_at_step=growth.fails_at_step,
            available_bytes=growth.available_bytes,
            first_step_bytes=growth.first_step_bytes,
            longest_step=growth.longest_step,
            longest_peak_bytes=growth.longest_peak_bytes,
            usual_peak_bytes=growth.usual_peak_bytes,
            leaks=[
                wire.Leak(
                    bytes_per_step=leak.bytes_per_step,
                    blocks_per_step=leak.blocks_per_step,
                    steps=leak.steps,
                    total_bytes=leak.total_bytes,
                    first_step=leak.first_step,
                    category=leak.category.value,
                    certainty=leak.certainty.value,
                    place=place_of(leak.place),
                    stack=self.stack(leak.frames),
                )
                for leak in growth.leaks
            ],
        )

    def _what_if(self, what_if: model.WhatIf) -> wire.WhatIf:
        return wire.WhatIf(
            says=what_if.says,
            capacity_bytes=what_if.capacity_bytes,
            capacity_how=what_if.capacity_how,
            worth_trying=None if what_if.worth_trying is None else self._trial(what_if.worth_trying),
            trials=[self._trial(trial) for trial in what_if.trials],
        )

    def _trial(self, trial: model.Trial) -> wire.Trial:
        return wire.Trial(
            setting=trial.setting,
            change=trial.change,
            peak_reserved_bytes=trial.peak_reserved_bytes,
            peak_allocated_bytes=trial.peak_allocated_bytes,
            fails_at=trial.fails_at,
            retries=trial.retries,
            releases=trial.releases,
            caveat=trial.caveat,
        )
