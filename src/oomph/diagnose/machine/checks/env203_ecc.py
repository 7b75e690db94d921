"""Errors of the card's memory."""

from __future__ import annotations

from collections.abc import Sequence

from oomph.diagnose.machine.answers import answer
from oomph.diagnose.machine.base import Check
from oomph.diagnose.machine.cards import kind, labels, nvidia_cards
from oomph.diagnose.machine.model import Answer, Asked, Problem, Severity
from oomph.diagnose.model import Certainty
from oomph.evidence.environment.model import Card


class EccErrors(Check):
    """See the class attributes: they are the check's documentation."""

    code = "ENV203"
    cause = "ecc_errors"
    name = "ecc-errors"
    means = (
        "The card's memory lost bits that ECC could not restore, or has rows that wait to be replaced, or could not "
        "be. "
        "A process that uses such memory is ended (Xid 48, 94, 95); it is no lack of memory."
    )
    decisive_evidence = (
        "Uncorrectable (double-bit) counts, Pending and Remapping Failure Occurred under Remapped Rows, or pending "
        "retired pages in nvidia-smi -q. Corrected (single-bit) errors are no finding."
    )
    first_action = "Drain the node and reset the GPU; where remapping failed, have the card replaced."
    verify = "nvidia-smi -q -d ECC,ROW_REMAPPER shows nothing pending, and the volatile count stays 0."
    wrong_advice = "Switching ECC off: the errors stay and are no longer noticed."

    def check(self, asked: Asked) -> Answer:
        cards = nvidia_cards(asked.environment)
        problems = [problem for card in cards if (problem := _problem(card)) is not None]
        if problems:
            return answer(problems)
        counted = [one for one in cards if one.ecc_uncorrected is not None or one.remap_failed is not None]
        silent = [
            one for one in cards if one not in counted and one.ecc is not False and kind(one) == "datacenter"
        ]
        return answer([], _clear(counted), _untold(silent))


def _clear(cards: Sequence[Card]) -> list[str]:
    return [f"no uncorrectable error and nothing pending on {labels(cards)}"] if cards else []


def _untold(cards: Sequence[Card]) -> list[str]:
    return (
        [f"the ECC counts of {labels(cards)}: nvidia-smi -q -d ECC,ROW_REMAPPER tells them"] if cards else []
    )


def _problem(card: Card) -> Problem | None:
    count = card.ecc_uncorrected or 0
    numbers = {"uncorrectable_errors": count} if count else {}
    which = labels([card])
    reset = f"sudo nvidia-smi --gpu-reset -i {card.index if card.index is not None else 0}"
    errors = f"{count} uncorrectable memory error{'s' if count > 1 else ''}"
    if card.remap_failed:
        return Problem(
            f"{which}: replacing bad memory failed" + (f", after {errors}." if count else "."),
            does="The bad memory stays in use: jobs on this card are ended without a fault of their own.",
            fix="Take the card out of use, and have it replaced.",
            subject=which,
            numbers=numbers,
            evidence=(card.quote,),
        )
    if count and card.remap_pending:
        return Problem(
            f"{which} had {errors}, and its memory waits for a reset to be repaired.",
            does="Until then a process can be given the bad row, and is ended (Xid 48, 94).",
            fix="Drain the node and reset the GPU, or reboot.",
            paste=reset,
            subject=which,
            numbers=numbers,
            evidence=(card.quote,),
        )
    if count:
        handled = card.remap_pending is False and card.remap_failed is False
        return Problem(
            f"{which} had {errors}" + ("; nothing is pending, and no repair failed." if handled else "."),
            does="Each ended the process that used the memory. "
            + (
                "What could be replaced was replaced; more of them mean that the card wears out."
                if handled
                else "Whether the memory was replaced is not told."
            ),
            fix="Watch whether the count grows; if it does, have the card replaced."
            if handled
            else "Look whether a repair is pending, and reset the GPU.",
            paste="nvidia-smi -q -d ECC,ROW_REMAPPER",
            subject=which,
            severity=Severity.WARNING if handled else Severity.ERROR,
            certainty=Certainty.CERTAIN if handled else Certainty.LIKELY,
            numbers=numbers,
            evidence=(card.quote,),
        )
    if card.remap_pending:
        return Problem(
            f"{which} has bad memory that will be replaced at the next reset.",
            does="Jobs run; a process that is given the bad row can be ended.",
            fix="Reset the GPU when the job is over, or reboot.",
            paste=reset,
            subject=which,
            severity=Severity.WARNING,
            evidence=(card.quote,),
        )
    return None
