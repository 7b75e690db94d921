"""The words that all renderers of traces share."""

from __future__ import annotations

from collections.abc import Sequence

from oomph.diagnose.snapshot.model import Failure
from oomph.diagnose.trace.model import DeviceTrace, Part, TraceReport
from oomph.memory.prediction import Peak
from oomph.report.clean import cut, flat
from oomph.report.snapshot.places import place_in_sentence, place_of
from oomph.report.snapshot.words import phase_of
from oomph.report.trace.wire import Largest
from oomph.report.words import plural
from oomph.units import format_bytes

#: Characters of a command, of a label and of an exception's text.
_COMMAND, _LABEL, _ERROR = 300, 80, 300

Rows = list[tuple[str, ...]]


def headline(report: TraceReport) -> str:
    """One sentence: whether it fits, and which phase needs the most. Before it, where the answer is for a part of the
    script only, why."""
    if not report.unfinished:
        return _answer(report)
    stopped = f"{cut(flat(report.unfinished), _ERROR).rstrip('.')}."
    own = report.failed is not None and not report.failed.out_of_memory
    return f"{stopped} {'' if own else 'As far as it ran: '}{_answer(report)}"


def _answer(report: TraceReport) -> str:
    device = report.shown
    if report.failed is not None and not report.failed.out_of_memory:
        return f"The script ended by itself, with {_error(report)}: what follows is up to there"
    if device is None:
        return "Nothing was allocated on any GPU"
    prediction = device.prediction
    if prediction.fits is False:
        return _fails(report, device)
    if report.fits is False and report.failed is not None:
        return f"It does not fit: the script ended with {_error(report)}"
    needs = f"needs {most_words(prediction.peak)}{_in(device)}"
    caught = sum(one.failures for one in report.snapshot.devices if one.index == device.index)
    went_on = f"; {plural(caught, 'request')} failed on the way, and the script went on" if caught else ""
    if prediction.capacity_bytes is None:
        return (
            f"GPU {device.index} {needs}; without --gpu or --capacity nothing says whether that fits{went_on}"
        )
    room = format_bytes(prediction.capacity_bytes)
    growth = report.growth
    if growth is not None:
        return (
            f"It fits for the {plural(report.steps_done, 'step')} traced, but memory grows by "
            f"{format_bytes(growth.bytes_per_step)} in each: step {growth.fails_at_step:,} will not fit. So far GPU "
            f"{device.index} {needs}, of {room} that PyTorch can have{went_on}"
        )
    return f"It fits: GPU {device.index} {needs}, of {room} that PyTorch can have{went_on}"


def _in(device: DeviceTrace) -> str:
    phase = device.peak_phase
    return "" if phase is None else f" {phase_of(phase)}"


def _fails(report: TraceReport, device: DeviceTrace) -> str:
    prediction = device.prediction
    failure = failure_of(report, device)
    room = format_bytes(prediction.capacity_bytes or 0)
    phase = "" if prediction.fails_in is None else f" {phase_of(prediction.fails_in)}"
    if failure is not None:
        frame = place_of(failure.frames)
        where = "" if frame is None else f" at {place_in_sentence(frame)}"
        return (
            f"It does not fit: a request of {format_bytes(failure.request_bytes)} fails{phase}{where}, with "
            f"{format_bytes(failure.allocated_bytes)} allocated of {room} that PyTorch can have"
        )
    if device.surely_fails:
        return f"It does not fit: memory runs out{phase}, at {room} that PyTorch can have"
    unsure = prediction.peak.uncertain_bytes
    more = f"with up to {format_bytes(unsure)} that kernels may need on top, " if unsure else ""
    return (
        f"It may not fit: {more}memory runs out{phase} in {prediction.orders_failed} of {prediction.orders_played} "
        f"orders of addresses, at {room} that PyTorch can have"
    )


def failure_of(report: TraceReport, device: DeviceTrace) -> Failure | None:
    """The request that ended the job on this device, if one did."""
    for one in report.snapshot.devices:
        if one.index == device.index and one.failure is not None and not one.failure.caught:
            return one.failure
    return None


def most_words(peak: Peak) -> str:
    """The upper end: "at most 5.20 GiB"; exactly where there is no range."""
    exact = peak.reserved_low_bytes == peak.most_bytes
    return f"{'' if exact else 'at most '}{format_bytes(peak.most_bytes)}"


def context(report: TraceReport) -> str:
    """What was traced, how far, and for which GPU and PyTorch the answer speaks."""
    command = f"Traced {cut(flat(report.command), _COMMAND)}: " if report.command else "Traced "
    ranks = f"rank {report.rank} of {report.world}, " if report.world > 1 else ""
    ran = "" if same_torch(report) else f", traced with {flat(report.installed_torch)}"
    return (
        f"{command}{ranks}{plural(report.steps_done, 'optimizer step')}, {plural(report.operators, 'operator')} in "
        f"{report.seconds:,.1f} s. It speaks for PyTorch {flat(report.torch)}{ran}, on a GPU like the "
        f"{flat(report.gpu)}."
    )


def same_torch(report: TraceReport) -> bool:
    """Whether the PyTorch that ran is the one that the trace speaks for."""
    ran = report.installed_torch.split(".")[:2]
    return ran == report.torch.split(".")[:2]


def phase_table(device: DeviceTrace) -> Rows:
    """Heads and one row for each phase; [] where nothing was allocated."""
    phases = device.prediction.phases
    if not phases:
        return []
    unsure = any(peak.uncertain_bytes for peak in phases.values())
    heads = ["phase", "allocated", "reserved", "by address order", *(["kernels"] if unsure else []), ""]
    rows = [tuple(heads)]
    for phase, peak in phases.items():
        on_top = [f"+{format_bytes(peak.uncertain_bytes)}" if peak.uncertain_bytes else ""] if unsure else []
        rows.append(
            (
                str(phase),
                format_bytes(peak.allocated_bytes),
                format_bytes(peak.reserved_bytes),
                range_words(peak),
                *on_top,
                "the most" if phase is device.peak_phase and len(phases) > 1 else "",
            )
        )
    return rows


def range_words(peak: Peak) -> str:
    """What other orders of addresses reserve: "5.0 to 5.2 GiB"; "the same"."""
    low, high = peak.reserved_low_bytes, peak.reserved_high_bytes
    return "the same" if low == high else f"{format_bytes(low)} to {format_bytes(high)}"


def step_rows(device: DeviceTrace) -> Rows:
    """Heads, the first step, and the later one that needs the most."""
    first, later = device.first_step, device.fullest_step
    if first is None or later is None:
        return []
    rows: Rows = [("step", "allocated", "reserved", "")]
    for peak, remark in ((first, "the first"), (later, "the most of the later ones")):
        rows.append(
            (
                f"{peak.step:,}",
                format_bytes(peak.allocated_bytes),
                format_bytes(peak.reserved_bytes),
                remark,
            )
        )
    return rows


def part_rows(parts: Sequence[Part], most: int, noun: str, *, alive: bool, room: int | None = None) -> Rows:
    """Heads and one row for each label: what it held at the moment, or (not `alive`) its largest block. Of labels with
    more than `room` characters the end is shown, which tells modules apart."""
    shown = [part for part in parts if part.bytes or not alive]
    if not alive:
        shown.sort(key=lambda part: -part.largest_bytes)
    if not shown:
        return []
    rows: Rows = [("then alive", "blocks", "largest ever", noun)]
    for part in shown[:most]:
        label = cut(flat(part.label), _LABEL) or "(no name)"
        if room is not None and len(label) > room:
            label = f"..{label[2 - room :]}"
        rows.append((format_bytes(part.bytes), f"{part.blocks:,}", format_bytes(part.largest_bytes), label))
    return rows


def rests_on(report: TraceReport, device: DeviceTrace | None, most: int | None = None) -> list[str]:
    """What the answer rests on and does not know, a sentence each; of long lists the first `most`."""
    told = []
    if device is not None and device.prediction.phases:
        told.append(
            f"Reserved memory depends on the addresses that the driver gives: {device.orders} orders of them were "
            "played. Memory that other libraries take outside PyTorch (the CUDA context, NCCL) is not in these numbers."
        )
        told += device.prediction.notes
    if report.unruled:
        shown = report.unruled[:most]
        names = ", ".join(
            f"{flat(one.operator)} (largest result {format_bytes(one.largest_bytes)})" for one in shown
        )
        more = len(report.unruled) - len(shown)
        told.append(
            f"{plural(len(report.unruled), 'operator')} may use scratch memory of which nothing is known here: {names}"
            + (f" and {more:,} more." if more > 0 else ".")
        )
    told += _listed("Taken for values that only a GPU computes", report.assumptions, most)
    told += _listed("Not written and not sent", report.suppressed, most)
    return [*told, *report.notes]


def _listed(title: str, texts: Sequence[str], most: int | None) -> list[str]:
    if not texts:
        return []
    shown = [flat(text).rstrip(".") for text in texts[:most]]
    more = len(texts) - len(shown)
    return [f"{title}: {'; '.join(shown)}{f'; and {more:,} more' if more > 0 else ''}."]


def _error(report: TraceReport) -> str:
    assert report.failed is not None
    text = cut(flat(report.failed.text), _ERROR)
    return f"{flat(report.failed.kind)}{f' ({text})' if text else ''}"


def largest_words(largest: Largest) -> str:
    """What --largest found, in a sentence."""
    flag, tried = flat(largest.flag), plural(len(largest.tried), "trace")
    if largest.value is None:
        return f"Not even {flag}=1 fits ({tried})."
    if largest.fails_at is None:
        return f"{flag}={largest.value:,} fits, and so may more: no limit was found ({tried})."
    by_itself = largest.tried.get(str(largest.fails_at)) is None
    next_one = f"{largest.fails_at:,} does not, or may not"
    if by_itself:
        next_one = f"with {largest.fails_at:,} the script ends with an exception of its own"
    exact = largest.fails_at == largest.value + 1
    told = f"The largest {flag} that fits is {largest.value:,}" if exact else f"{flag}={largest.value:,} fits"
    return f"{told}; {next_one} ({tried}). What follows is for {flag}={largest.value:,}."


def verdict_word(device: DeviceTrace) -> str:
    """Whether it fits, in a word or two for a table."""
    if device.prediction.fits is None:
        return "not known"
    if device.prediction.fits:
        return "fits"
    return "does not fit" if device.surely_fails else "may not fit"


def rank_rows(reports: Sequence[TraceReport]) -> Rows:
    """Heads and one row for each device of each rank."""
    rows: Rows = [("rank", "GPU", "allocated", "reserved", "at most", "in", "")]
    for report in reports:
        for device in report.devices:
            peak = device.prediction.peak
            rows.append(
                (
                    f"{report.rank:,}",
                    str(device.index),
                    format_bytes(peak.allocated_bytes),
                    format_bytes(peak.reserved_bytes),
                    format_bytes(peak.most_bytes),
                    str(device.peak_phase or ""),
                    verdict_word(device),
                )
            )
    return rows
