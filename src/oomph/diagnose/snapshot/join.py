"""Memory snapshots beside the logs of the same job: the log knows the device and its neighbours, the snapshot what was
inside of PyTorch.

A failure that a log prints and a snapshot recorded is one failure: its sizes are the same, as far as they were
printed. A failure that no log prints becomes evidence of its own, with the snapshot as its document.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from oomph.diagnose.snapshot.evidence import document_of, fact_of, failure_of, traceback_of
from oomph.diagnose.snapshot.model import DeviceReport, Inside, SnapshotReport
from oomph.evidence.model import Evidence, Failure, Kind, Position
from oomph.evidence.sources.ranks import place_files
from oomph.units import Amount


def join(evidence: Evidence, reports: Sequence[SnapshotReport]) -> tuple[Evidence, dict[Position, Inside]]:
    """The evidence with what the snapshots add, and what is known of the inside of each failure, by the position of
    the failure's print."""
    insides: dict[Position, Inside] = {}
    places = place_files([report.source for report in reports], {})
    for report, place in zip(reports, places, strict=True):
        document = document_of(report, len(evidence.documents), place)
        evidence = replace(evidence, documents=(*evidence.documents, document))
        fact = fact_of(report, document)
        if fact is not None and evidence.fact("alloc_conf") is None:
            evidence = replace(evidence, facts=(*evidence.facts, fact))
        for device in report.devices:
            evidence = _device(evidence, report, device, insides)
    _lone(evidence, reports, insides)
    return evidence, insides


def _device(
    evidence: Evidence, report: SnapshotReport, device: DeviceReport, insides: dict[Position, Inside]
) -> Evidence:
    if device.failure is None:
        return evidence
    inside = Inside(report.source, report.settings, device, exact=True)
    rank = evidence.documents[-1].rank
    # Ranks of one job often fail with the same sizes.
    printed = [
        one
        for one in evidence.failures
        if _is_same(one, device) and (rank is None or one.rank is None or one.rank == rank)
    ]
    if printed:
        insides.update({one.position: inside for one in printed})
        return evidence
    document = evidence.documents[-1]
    failure = failure_of(device, document)
    insides[failure.position] = inside
    traceback = traceback_of(device, failure)
    return replace(
        evidence,
        failures=(*evidence.failures, failure),
        tracebacks=evidence.tracebacks if traceback is None else (*evidence.tracebacks, traceback),
    )


def _is_same(printed: Failure, device: DeviceReport) -> bool:
    """Whether a printed failure is the one that this device's trace ends with: the request and at least one more size
    agree within what was rounded away, and none differs."""
    failure = device.failure
    if failure is None or printed.kind is not Kind.DEVICE_OOM or printed.format == "snapshot":
        return False
    if printed.device is not None and printed.device != device.index:
        return False
    asked = printed.numbers.get("requested_bytes")
    if asked is None or not any(
        _agrees(asked, one) for one in (failure.segment_bytes, failure.request_bytes)
    ):
        return False
    recorded = {
        "free_bytes": failure.free_bytes,
        "allocated_bytes": failure.allocated_bytes,
        "reserved_bytes": failure.reserved_bytes,
    }
    answers = list(_compared(printed, recorded))
    return bool(answers) and all(answers)


def _compared(printed: Failure, recorded: dict[str, int | None]) -> Iterator[bool]:
    for name, value in recorded.items():
        said = printed.numbers.get(name)
        if said is not None and value is not None:
            yield _agrees(said, value)


def _agrees(printed: Amount, recorded: int) -> bool:
    return printed.low_bytes - 1 <= recorded <= printed.high_bytes + 1


def _lone(evidence: Evidence, reports: Sequence[SnapshotReport], insides: dict[Position, Inside]) -> None:
    """One log failure and one snapshot that recorded none: it shows the same job at another moment (a periodic dump,
    or one that was written after the failure without its event)."""
    printed = [one for one in evidence.failures if one.kind is Kind.DEVICE_OOM and one.format != "snapshot"]
    if len(reports) != 1 or insides or not printed:
        return
    devices = {one.device for one in printed}
    if len(devices) != 1:
        return
    wanted = devices.pop()
    report = reports[0]
    used = [one for one in report.devices if wanted is None or one.index == wanted]
    if len(used) == 1:
        inside = Inside(report.source, report.settings, used[0], exact=False)
        insides.update({one.position: inside for one in printed})
