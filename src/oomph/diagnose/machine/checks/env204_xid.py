"""Xid events of the kernel log."""

from __future__ import annotations

from oomph.diagnose.machine.answers import answer, listed
from oomph.diagnose.machine.base import Check
from oomph.diagnose.machine.model import Answer, Asked, Problem, Severity
from oomph.diagnose.model import Certainty
from oomph.evidence.environment.model import Xid
from oomph.hardware.drivers import XidMeaning, xid

_WHOSE = {
    "application": "It is the program's own fault, not the card's.",
    "card": "It is the card's fault, not the job's.",
    "link": "It is the connection's or the card's fault, not the job's.",
    "driver": "It is the driver's fault, or the card's; not the job's.",
    "follows": "It follows from something else.",
    "note": "It is no fault.",
}


class XidEvents(Check):
    """See the class attributes: they are the check's documentation."""

    code = "ENV204"
    cause = "xid_events"
    name = "xid-events"
    means = (
        "The driver wrote an Xid into the kernel log. The number says whose fault it was: 13, 31 and 43 are mostly the "
        "program's own; 48, 63, 64, 74, 79, 92, 94, 95, 119, 120 and 140 are the card's, its link's or its driver's; "
        "45 "
        "follows from another or from a kill. None of them means that memory was full."
    )
    decisive_evidence = "The line `NVRM: Xid (PCI:...): number` in dmesg or journalctl -k, with its process."
    first_action = "For a card's Xid, drain the node and reset or reboot; for a program's, debug the program."
    verify = "After the reset the same job runs, and dmesg has no new Xid."
    wrong_advice = (
        "Sending a card back for Xid 13 or 31: run compute-sanitizer first. And a smaller batch against Xid 79 or "
        "48: it "
        "changes nothing but the time until the next one."
    )

    def check(self, asked: Asked) -> Answer:
        environment = asked.environment
        if not environment.tells("xids") and not (environment.cards or environment.drivers):
            return answer([])
        if not environment.tells("xids"):
            return answer(
                [], (), ["whether the kernel log has Xids: dmesg | grep -i xid (or journalctl -k) tells it"]
            )
        if not environment.xids:
            return answer([], ["the kernel log has no Xid"])
        groups: dict[tuple[int, str], list[Xid]] = {}
        for one in environment.xids:
            groups.setdefault((one.number, one.bus_id), []).append(one)
        others = {number for number, _ in groups} - {45, 154}
        merged: dict[int, list[Xid]] = {}
        for (number, _), events in groups.items():
            if number == 45 and others:
                continue  # the other one's, and said there
            merged.setdefault(number, []).extend(events)
        follows = sum(one.number == 45 for one in environment.xids) if others else 0
        return answer(_problem(number, events, follows) for number, events in merged.items())


def _problem(number: int, events: list[Xid], follows: int) -> Problem:
    meaning = xid(number)
    cards = listed(one.bus_id for one in events if one.bus_id)
    where = f" on {cards}" if cards else ""
    times = f", {len(events)} times" if len(events) > 1 else ""
    who = next((one for one in events if one.process or one.pid is not None), None)
    process = ""
    if who is not None:
        process = (
            f" while {who.process or 'process'} ({who.pid}) ran"
            if who.pid is not None
            else f" ({who.process})"
        )
    quotes = tuple(one.quote for one in events[:3])
    if meaning is None:
        return Problem(
            f"Xid {number}{where}{times}{process}: what it means is not in the table.",
            does="",
            fix="Look the number up in NVIDIA's Xid catalogue.",
            subject=f"Xid {number}",
            severity=Severity.WARNING,
            certainty=Certainty.POSSIBLE,
            evidence=quotes,
        )
    return Problem(
        f"Xid {number}{where}{times}{process}: {meaning.name}. {_WHOSE[meaning.blame]}",
        does=_does(meaning, follows),
        fix=f"{meaning.do.rstrip('.')}.",
        paste="compute-sanitizer python train.py ..." if "compute-sanitizer" in meaning.do else "",
        subject=f"Xid {number}",
        severity=Severity(meaning.severity),
        # The program's Xids may, rarely, be the hardware's: the catalogue says so itself.
        certainty=Certainty.CERTAIN if meaning.blame in ("card", "follows", "note") else Certainty.LIKELY,
        numbers={"events": len(events)},
        evidence=quotes,
        wrong="A smaller batch or allocator settings: no Xid comes from full memory."
        if meaning.blame != "note"
        else "",
    )


def _does(meaning: XidMeaning, follows: int) -> str:
    text = meaning.means[0].upper() + meaning.means[1:] + "."
    if follows and meaning.blame not in ("follows", "note"):
        text += " (The Xid 45 beside it is the driver's cleaning up.)"
    return text
