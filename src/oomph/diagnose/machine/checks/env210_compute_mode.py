"""The compute mode lets one process, or none, use a card."""

from __future__ import annotations

from collections.abc import Sequence

from oomph.diagnose.machine.answers import answer
from oomph.diagnose.machine.base import Check
from oomph.diagnose.machine.cards import labels, nvidia_cards
from oomph.diagnose.machine.model import Answer, Asked, Problem, Severity
from oomph.diagnose.machine.neighbours import described, draws, strangers
from oomph.diagnose.model import Certainty
from oomph.evidence.environment.model import Card, Environment


class ComputeMode(Check):
    """See the class attributes: they are the check's documentation."""

    code = "ENV210"
    cause = "compute_mode"
    name = "compute-mode"
    means = (
        "Exclusive_Process lets one process at a time have a CUDA context on a card, Prohibited none. A second one "
        '(another rank, an evaluation, a data worker that uses CUDA) fails with "all CUDA-capable devices are busy or '
        'unavailable", however much memory is free.'
    )
    decisive_evidence = "Compute Mode in nvidia-smi -q (E. Process or Prohibited in its table)."
    first_action = "Set the default mode, if nothing relies on the other."
    verify = "nvidia-smi shows Default under Compute M."
    wrong_advice = "A smaller batch: the error names no memory, and none is missing."

    def check(self, asked: Asked) -> Answer:
        environment = asked.environment
        cards = [one for one in nvidia_cards(environment) if one.compute_mode]
        problems: list[Problem] = []
        prohibited = [one for one in cards if "prohibited" in one.compute_mode.lower()]
        if prohibited:
            problems.append(_prohibited(prohibited, len(cards)))
        exclusive = [one for one in cards if _exclusive(one)]
        if exclusive:
            problems.append(_one_process(environment, exclusive))
        return answer(problems, [f"compute mode is {cards[0].compute_mode}"] if cards else [])


def _exclusive(card: Card) -> bool:
    mode = card.compute_mode.lower().replace(" ", "")
    return mode.startswith(("exclusive", "e.process", "e.thread"))


def _paste(cards: Sequence[Card]) -> str:
    indices = ",".join(str(one.index) for one in cards if one.index is not None)
    return f"sudo nvidia-smi {f'-i {indices} ' if indices else ''}-c DEFAULT"


def _prohibited(cards: Sequence[Card], of: int) -> Problem:
    return Problem(
        f"The compute mode of {labels(cards)} is Prohibited.",
        does="No process can use "
        + ("the card" if of == len(cards) == 1 else "these cards")
        + ': CUDA says "no CUDA-capable device is detected" or "all CUDA-capable devices are busy or unavailable".',
        fix="Set the default mode.",
        paste=_paste(cards),
        subject=labels(cards),
        evidence=(cards[0].quote,),
    )


def _one_process(environment: Environment, cards: Sequence[Card]) -> Problem:
    taken = [one for card in cards for one in strangers(card) if not draws(one)]
    launch = next((one for one in environment.launches if (one.processes or 0) > len(cards)), None)
    total = len(nvidia_cards(environment))
    base = f"The compute mode of {labels(cards)} is {cards[0].compute_mode}: one process at a time"
    if taken:
        return Problem(
            f"{base}, and {described(taken[0])} is there.",
            does='The next process fails at its first CUDA call: "all CUDA-capable devices are busy or unavailable".',
            fix="Wait for that process or stop it; or set the default mode.",
            paste=_paste(cards),
            subject=labels(cards),
            severity=Severity.ERROR if environment.live else Severity.WARNING,
            certainty=Certainty.LIKELY,
            evidence=(cards[0].quote, taken[0].quote),
        )
    if launch is not None and total == len(cards):
        return Problem(
            f"{base}, and {launch.processes} processes are started for {total} of them.",
            does='Those without a card of their own fail: "all CUDA-capable devices are busy or unavailable".',
            fix="Start one process per card, or set the default mode.",
            paste=_paste(cards),
            subject=labels(cards),
            evidence=(cards[0].quote, launch.quote),
        )
    return Problem(
        f"{base}.",
        does="One process per card works. A second one (evaluation beside training, a data worker that uses CUDA) "
        "fails.",
        fix="Nothing for one process per card; else set the default mode.",
        paste=_paste(cards),
        subject=labels(cards),
        severity=Severity.NOTE,
        evidence=(cards[0].quote,),
    )
