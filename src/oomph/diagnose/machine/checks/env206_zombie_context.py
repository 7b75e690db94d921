"""Memory in use that no living process owns."""

from __future__ import annotations

from collections.abc import Sequence

from oomph.diagnose.machine.answers import answer
from oomph.diagnose.machine.base import Check
from oomph.diagnose.machine.cards import labels, nvidia_cards
from oomph.diagnose.machine.idle import IDLE_BYTES, gone, listed_once, unowned
from oomph.diagnose.machine.model import Answer, Asked, Problem
from oomph.diagnose.model import Certainty
from oomph.evidence.environment.model import Card, CardProcess
from oomph.units import format_bytes


class ZombieContext(Check):
    """See the class attributes: they are the check's documentation."""

    code = "ENV206"
    cause = "zombie_context"
    name = "zombie-context"
    means = (
        "The card's memory is in use and no living process owns it: a process died or is a zombie while one of its "
        "children, or a thread in the driver, keeps its CUDA context. The bytes come back when the last of them ends."
    )
    decisive_evidence = (
        "Memory in use in nvidia-smi with an empty list of processes, on the host itself; or a listed pid that is "
        '"defunct" or gone. In a container, with MIG, and on Windows the list is not whole: that is ENV207.'
    )
    first_action = "End what is left of the job: its workers, its launcher, processes that hold /dev/nvidia*."
    verify = "nvidia-smi shows some MiB in use."
    wrong_advice = (
        "torch.cuda.empty_cache() in a new process: it frees nothing of another's. A GPU reset is the last step, not "
        "the "
        "first: it ends every job on the card."
    )

    def check(self, asked: Asked) -> Answer:
        environment = asked.environment
        cards = nvidia_cards(environment)
        problems: list[Problem] = []
        clear: list[Card] = []
        unclear: dict[str, list[Card]] = {}
        for card in cards:
            dead = [one for one in listed_once(card) if gone(one)]
            if dead:
                problems.append(_dead(card, dead))
                continue
            rest = unowned(environment, card)
            if rest.missing or (rest.blind and rest.much):
                reason = rest.missing or rest.blind
                if card.used_bytes is not None or card.processes is not None:
                    unclear.setdefault(reason, []).append(card)
            elif rest.much:
                problems.append(_unowned(card, rest.bytes))
            elif not rest.blind:
                clear.append(card)
        says = f"no more than {format_bytes(IDLE_BYTES)} of {labels(clear)} without an owner" if clear else ""
        untold = [f"who owns the memory of {labels(those)}: {reason}" for reason, those in unclear.items()]
        return answer(problems, [says] if says else [], untold)


_FIX = "End what is left: the job's workers and launcher, and what else has the device open."
_PASTE = "sudo fuser -v /dev/nvidia*"
_DOES = "A new job does not get these bytes, and a smaller batch does not bring them back."


def _dead(card: Card, dead: Sequence[CardProcess]) -> Problem:
    held = sum(one.used_bytes or 0 for one in dead)
    pids = ", ".join(str(one.pid) for one in dead)
    size = f"{format_bytes(held)} of " if held else "memory of "
    plural = len(dead) > 1
    sure = all(one.alive is False for one in dead)
    which = f"{'are' if plural else 'is'} gone or a zombie."
    if not sure:
        which = f"nvidia-smi cannot name: {'they are' if plural else 'it is'} gone, or in another container."
    return Problem(
        f"{labels([card])}: {size}its memory belongs to {'processes' if plural else 'process'} {pids}, which {which}",
        does=_DOES,
        fix=_FIX,
        paste=_PASTE,
        subject=labels([card]),
        certainty=Certainty.CERTAIN if sure else Certainty.POSSIBLE,
        numbers={"unowned_bytes": held},
        evidence=tuple(one.quote for one in dead[:4]),
    )


def _unowned(card: Card, rest: int) -> Problem:
    living = bool(card.processes)
    return Problem(
        f"{labels([card])}: {format_bytes(rest)} is in use and no "
        + ("listed process owns it." if living else "process is listed."),
        does=_DOES,
        fix=_FIX,
        paste=_PASTE,
        subject=labels([card]),
        certainty=Certainty.POSSIBLE if living else Certainty.LIKELY,
        numbers={"unowned_bytes": rest},
        evidence=(card.quote,),
    )
