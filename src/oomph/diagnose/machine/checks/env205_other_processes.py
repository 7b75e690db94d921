"""Other processes hold memory of the cards."""

from __future__ import annotations

from collections.abc import Sequence

from oomph.diagnose.machine.answers import answer, counted
from oomph.diagnose.machine.base import Check
from oomph.diagnose.machine.cards import in_container, label, labels, nvidia_cards
from oomph.diagnose.machine.model import Answer, Asked, Problem, Severity
from oomph.diagnose.machine.neighbours import (
    DESKTOP_BYTES,
    described,
    draws,
    is_python,
    like_one_job,
    strangers,
)
from oomph.diagnose.model import Certainty
from oomph.evidence.environment.model import Card, CardProcess, Environment
from oomph.units import format_bytes

#: More are counted, not listed.
_MOST = 6


class OtherProcesses(Check):
    """See the class attributes: they are the check's documentation."""

    code = "ENV205"
    cause = "other_processes"
    name = "other-processes"
    means = (
        "Processes that are not the job's hold memory of the cards: an earlier run, a notebook's kernel, an inference "
        "server, another user, a desktop. What they hold is not there for the job."
    )
    decisive_evidence = (
        "The list of processes in nvidia-smi, with their bytes. A job's own ranks stand there too while it runs. In a "
        "container the list leaves others out, so an empty one proves nothing there."
    )
    first_action = "Find the process and stop it, or take another card; then run the job again unchanged."
    verify = "nvidia-smi shows the memory as free before the start."
    wrong_advice = (
        "A smaller batch to fit beside it: the other process may grow. torch.cuda.empty_cache() frees this process's "
        "cache only."
    )

    def check(self, asked: Asked) -> Answer:
        environment = asked.environment
        cards = nvidia_cards(environment)
        listing = [one for one in cards if one.processes is not None]
        silent = [one for one in cards if one.processes is None]
        untold = [f"which processes use {labels(silent)}: nvidia-smi lists them"] if silent else []
        untold += _blind(environment, listing)
        computing = {
            id(card): those
            for card in listing
            if (those := tuple(one for one in strangers(card) if not draws(one)))
        }
        busy = [card for card in listing if id(card) in computing]
        desktops = [card for card in listing if any(draws(one) for one in strangers(card))]
        problems: list[Problem] = []
        if busy and like_one_job(environment, listing):
            untold.append(
                f"whether the {counted(len(busy), 'Python process', 'Python processes')} on {labels(busy)} are the "
                "job's "
                "own: they look like one job's ranks"
            )
        elif busy:
            problems.append(_computing(environment, [(card, computing[id(card)]) for card in busy]))
        if desktops:
            problems.append(_desktop(desktops))
        blind = {id(card) for card in listing if card.hidden} if not in_container(environment) else None
        free = [one for one in listing if not strangers(one) and blind is not None and id(one) not in blind]
        clear = [f"no other process on {labels(free)}"] if free else []
        return answer(problems, clear, untold)


def _blind(environment: Environment, cards: Sequence[Card]) -> list[str]:
    found = [one.hidden for one in cards if one.hidden]
    container = in_container(environment)
    if cards and container and not found:
        found.append(f"in a container ({container}) the list of processes leaves out what runs outside it")
    return [f"whether there are others: {one}" for one in dict.fromkeys(found)]


def _computing(environment: Environment, found: Sequence[tuple[Card, Sequence[CardProcess]]]) -> Problem:
    lines = [
        f"{label(card)}: {described(one)}" if len(found) > 1 else described(one)
        for card, those in found
        for one in those
    ]
    more = f"; and {len(lines) - _MOST} more" if len(lines) > _MOST else ""
    cards = [card for card, _ in found]
    processes = [one for _, those in found for one in those]
    held = sum(one.used_bytes or 0 for one in processes)
    maybe_ours = not environment.live and all(is_python(one) for one in processes)
    total = f" ({format_bytes(held)} together)" if len(processes) > 1 and held else ""
    pids = " ".join(dict.fromkeys(str(one.pid) for one in processes[:_MOST]))
    return Problem(
        f"Other processes hold memory of {labels(cards)}{total}: {'; '.join(lines[:_MOST])}{more}."
        + (" (If one of them is the job itself, it is no neighbour.)" if maybe_ours else ""),
        does="The job has that much less, and it can grow at any time.",
        fix="See what they are, and stop what is not needed; or use other cards.",
        paste=f"ps -o pid,user,lstart,cmd -p {','.join(pids.split())}",
        subject=labels(cards),
        severity=Severity.WARNING,
        certainty=Certainty.CERTAIN
        if environment.live
        else Certainty.POSSIBLE
        if maybe_ours
        else Certainty.LIKELY,
        numbers={"other_processes_bytes": held, "processes": len(processes)},
        evidence=tuple(one.quote for one in processes[:4]),
    )


def _desktop(cards: Sequence[Card]) -> Problem:
    per_card = [(card, [one for one in strangers(card) if draws(one)]) for card in cards]
    largest = max(sum(one.used_bytes or 0 for one in those) for _, those in per_card)
    held = sum(one.used_bytes or 0 for _, those in per_card for one in those)
    first = per_card[0][1]
    known = any(one.used_bytes is not None for _, those in per_card for one in those)
    size = f"{format_bytes(held)}" if known else "memory that the driver does not tell"
    large = largest > DESKTOP_BYTES
    names = ", ".join(described(one) for one in first[:3])
    return Problem(
        f"A desktop runs on {labels(cards)} and holds {size}: {names}{', ...' if len(first) > 3 else ''}.",
        does="The job has that much less; a browser or another screen takes more of it."
        if large
        else "Little: a desktop of this size is usual."
        if known
        else "A desktop takes some hundred MiB; the system's own monitor (Task Manager on Windows) shows how much.",
        fix="Run the desktop on another card, or train from a text console."
        if large
        else "Nothing, if the job fits.",
        subject=labels(cards),
        severity=Severity.WARNING if large else Severity.NOTE,
        numbers={"desktop_bytes": held} if known else {},
        evidence=tuple(one.quote for one in first[:3]),
    )
