"""Persistence mode is off."""

from __future__ import annotations

from oomph.diagnose.machine.answers import answer
from oomph.diagnose.machine.base import Check
from oomph.diagnose.machine.cards import is_windows, labels, nvidia_cards
from oomph.diagnose.machine.model import Answer, Asked, Problem, Severity


class PersistenceOff(Check):
    """See the class attributes: they are the check's documentation."""

    code = "ENV201"
    cause = "persistence_off"
    name = "persistence-off"
    means = (
        "The driver unloads a card's state when no process uses it. The next process waits some seconds for it, and "
        "settings (clocks, ECC counts since start) are lost. It costs no memory."
    )
    decisive_evidence = "Persistence Mode: Disabled in nvidia-smi -q, Off in its table."
    first_action = "On a server, start nvidia-persistenced; on a desktop, nothing."
    verify = "nvidia-smi shows Persistence-M On."
    wrong_advice = "Persistence as a cure for out of memory, or for leftover memory: it frees nothing."

    def check(self, asked: Asked) -> Answer:
        environment = asked.environment
        cards = nvidia_cards(environment)
        if is_windows(environment):
            return answer([])
        off = [one for one in cards if one.persistence is False and not one.display_active]
        if off:
            return answer(
                [
                    Problem(
                        f"Persistence mode is off on {labels(off)}.",
                        does="The first CUDA call after a pause takes some seconds longer, for every card; memory is "
                        "not "
                        "affected.",
                        fix="Start the persistence daemon.",
                        paste="sudo systemctl enable --now nvidia-persistenced",
                        subject=labels(off),
                        severity=Severity.NOTE,
                        evidence=(off[0].quote,),
                    )
                ]
            )
        on = [one for one in cards if one.persistence]
        return answer([], [f"persistence mode is on ({labels(on)})"] if on else [])
