"""Less memory is free than on an idle card, or the card has less than its name promises."""

from __future__ import annotations

from oomph.diagnose.machine.answers import answer
from oomph.diagnose.machine.base import Check
from oomph.diagnose.machine.cards import is_vgpu, known, labels, nvidia_cards
from oomph.diagnose.machine.idle import listed_once, unowned
from oomph.diagnose.machine.model import Answer, Asked, Problem, Severity
from oomph.diagnose.model import Certainty
from oomph.evidence.environment.model import Card
from oomph.units import MIB, format_bytes

#: ECC takes 6.25 % of a GDDR card, and the driver up to 1.1 GiB: less than this share of the total is something else.
_SHARE = 0.88


class LessFreeThanIdle(Check):
    """See the class attributes: they are the check's documentation."""

    code = "ENV207"
    cause = "less_free_than_idle"
    name = "less-free-than-idle"
    means = (
        "Part of the card is in use, and the list of processes cannot say by whom (a container, MIG, Windows); or the "
        "card has less memory than its kind, because it is a virtual or a cut one. The job has that much less."
    )
    decisive_evidence = (
        "Memory used in nvidia-smi beyond what an idle card uses, where the list is not whole; the total against "
        "that of "
        "the card's kind."
    )
    first_action = "Ask on the host, outside the container, who uses the card."
    verify = "torch.cuda.mem_get_info() shows nearly all of the card as free before the job starts."
    wrong_advice = (
        "Concluding from an empty list in a container that nobody else is there. And some hundred MiB between "
        "nvidia-smi's "
        "total and PyTorch's are the driver's own, not a neighbour's."
    )

    def check(self, asked: Asked) -> Answer:
        environment = asked.environment
        problems: list[Problem] = []
        clear: list[Card] = []
        untold: list[str] = []
        for card in nvidia_cards(environment):
            smaller = _smaller(card)
            if smaller is not None:
                problems.append(smaller)
            rest = unowned(environment, card)
            if rest.blind and rest.much and card.utilization:
                untold.append(
                    f"whose {format_bytes(rest.bytes)} of {labels([card])} are: the card is {card.utilization} % busy, "
                    f"and it may be the job itself ({rest.blind})"
                )
            elif rest.blind and rest.much:
                problems.append(_used(card, rest.bytes, rest.blind))
            elif rest.missing and rest.much:
                untold.append(f"who uses {format_bytes(rest.bytes)} of {labels([card])}; {rest.missing}")
            elif not rest.much and not rest.missing and smaller is None and not card.processes:
                clear.append(card)
        says = f"{labels(clear)}: no more in use than an idle card needs" if clear else ""
        return answer(problems, [says] if says else [], untold)


def _used(card: Card, rest: int, blind: str) -> Problem:
    total = f" of {format_bytes(card.total_bytes)}" if card.total_bytes else ""
    free = f", {format_bytes(card.free_bytes)} is free" if card.free_bytes is not None else ""
    beside = " beside what is listed" if listed_once(card) else ""
    return Problem(
        f"{labels([card])}: {format_bytes(rest)}{total} is in use{beside}{free}, and the list of processes does not "
        "say by "
        f"whom: {blind}.",
        does="A job that starts now has that much less, unless it is the job's own.",
        fix="Look on the host who it is, and stop it or take another card.",
        paste="nvidia-smi --query-compute-apps=gpu_uuid,pid,process_name,used_memory --format=csv",
        subject=labels([card]),
        severity=Severity.WARNING,
        certainty=Certainty.LIKELY,
        numbers={"used_bytes": rest},
        evidence=(card.quote,),
    )


def _smaller(card: Card) -> Problem | None:
    """The total against the smallest that was seen of that kind; consumer cards are sold with several sizes under one
    name, so nothing is concluded of them."""
    if card.total_bytes is None:
        return None
    if is_vgpu(card):
        return Problem(
            f"{labels([card])} is a virtual GPU ({card.name}) with {format_bytes(card.total_bytes)}.",
            does="The job has this part of the card and not the whole.",
            fix="Size the job for it, or ask for a whole card.",
            subject=labels([card]),
            severity=Severity.WARNING,
            numbers={"total_bytes": card.total_bytes},
            evidence=(card.quote,),
        )
    found = known(card)
    if found is None or found.unified or found.kind == "consumer" or not found.smi_total_mib:
        return None
    least = min(found.smi_total_mib) * MIB
    if card.total_bytes >= _SHARE * least:
        return None
    return Problem(
        f"{labels([card])} ({card.name}) shows {format_bytes(card.total_bytes)} in all; such cards have "
        f"{format_bytes(least)} or more.",
        does="It is a part of a card (vGPU or MIG), or memory was taken out of use.",
        fix="Ask who runs the machine; size the job for what is there.",
        subject=labels([card]),
        severity=Severity.WARNING,
        certainty=Certainty.LIKELY,
        numbers={"total_bytes": card.total_bytes, "expected_bytes": least},
        evidence=(card.quote,),
    )
