"""The parts of the text report about time and other settings: growth, what if; other devices; notes."""

from __future__ import annotations

from collections.abc import Sequence

from oomph.diagnose.snapshot.model import DeviceReport, Leak, WhatIf
from oomph.report.clean import flat
from oomph.report.layout import Style, wrap
from oomph.report.snapshot.places import place_of, stack_place
from oomph.report.snapshot.tables import aligned
from oomph.report.snapshot.view import SnapshotView
from oomph.report.snapshot.words import trial_fails, verdict_words
from oomph.report.words import plural
from oomph.units import format_bytes

#: Leaks that are listed.
_LEAKS = 5


def growth_lines(device: DeviceReport, width: int, *, everything: bool) -> list[str]:
    """What grows from step to step, where, and until when it fits; that nothing does only with `everything`."""
    growth = device.growth
    if growth is None or not (everything or growth.leaks or growth.longest_step is not None):
        return []
    lines = wrap(flat(growth.says), width, "  ")
    if growth.leaks:
        lines += ["", *aligned(leak_rows(growth.leaks[:_LEAKS]), width, "rrrll")]
    more = len(growth.leaks) - _LEAKS
    return [*lines, f"  and {more:,} more"] if more > 0 else lines


def step_lines(device: DeviceReport, width: int) -> list[str]:
    """How the training steps of the trace were told."""
    steps = device.steps
    if steps is None:
        return []
    count = plural(steps.count, "training step")
    sure = f" ({steps.certainty})" if steps.count else ""
    return wrap(f"{count}{sure}: {flat(steps.why)}", width, "  ")


def leak_rows(leaks: Sequence[Leak]) -> list[tuple[str, ...]]:
    """Heads and one row for each stack whose blocks outlive their step."""
    rows: list[tuple[str, ...]] = [("a step", "blocks", "in all", "how sure", "allocated at")]
    for leak in leaks:
        place = stack_place(leak.place or place_of(leak.frames), leak.frames)
        rows.append(
            (
                format_bytes(leak.bytes_per_step),
                f"{leak.blocks_per_step:,.3g}",
                format_bytes(leak.total_bytes),
                str(leak.certainty),
                place,
            )
        )
    return rows


def what_if_lines(device: DeviceReport, width: int, style: Style) -> list[str]:
    """The answer, then what each setting would have done."""
    what_if = device.what_if
    if what_if is None:
        return []
    lines = [style(line, "bold") for line in wrap(flat(what_if.says), width, "  ")]
    if what_if.capacity_bytes is not None:
        told = f", with {format_bytes(what_if.capacity_bytes)} for PyTorch ({flat(what_if.capacity_how)})"
    else:
        why = flat(what_if.capacity_how).removeprefix("not known: ")
        told = f"; what PyTorch could have had is not known ({why})"
    lines += wrap(f"The same requests{told}:", width, "  ")
    lines += aligned(trial_rows(what_if), width, "lrlr")
    caveats = dict.fromkeys(
        (flat(trial.setting) or "as it was", flat(trial.caveat)) for trial in what_if.trials if trial.caveat
    )
    for setting, caveat in caveats:
        lines += wrap(f"{setting}: {caveat}", width, "  - ")
    return lines


def trial_rows(what_if: WhatIf) -> list[tuple[str, ...]]:
    """Heads and one row for each setting."""
    rows: list[tuple[str, ...]] = [("setting", "peak reserved", "fails", "retries")]
    for trial in what_if.trials:
        setting = flat(trial.setting) or "as it was"
        if what_if.worth_trying is not None and trial == what_if.worth_trying:
            setting += "  <-"
        rows.append(
            (
                setting,
                format_bytes(trial.peak_reserved_bytes),
                trial_fails(trial, what_if),
                f"{trial.retries:,}",
            )
        )
    return rows


def device_lines(view: SnapshotView, width: int) -> list[str]:
    """One line for each device that is not the one shown."""
    return [
        line
        for device in view.others
        for line in wrap(device_words(device), width, f"  GPU {device.index}: ")
    ]


def device_words(device: DeviceReport) -> str:
    """A device in one line: whether a request failed and why, and its peaks."""
    if device.failure is not None:
        failure = device.failure
        return f"a request of {format_bytes(failure.request_bytes)} failed: {verdict_words(failure)}"
    told = f"no request failed; at most {format_bytes(device.peak_allocated_bytes)} allocated"
    if not device.events:
        told = f"no history; {format_bytes(device.ledger.allocated_bytes or 0)} allocated"
    reserved = max(device.peak_reserved_bytes, device.ledger.reserved_bytes or 0)
    retries = f", {len(device.retries):,} retries" if device.retries else ""
    return f"{told}, {format_bytes(reserved)} reserved{retries}"


def note_lines(view: SnapshotView, width: int) -> list[str]:
    """What weakens the answer, a sentence each."""
    return [line for note in notes_of(view) for line in wrap(flat(note), width, "  - ")]


def notes_of(view: SnapshotView) -> list[str]:
    """Notes of the file and of the device shown, each once."""
    device = view.device
    notes = [*view.report.notes, *(() if device is None else device.notes)]
    return list(dict.fromkeys(notes))
