"""Two ranks of a job use the same card."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from oomph.diagnose.machine.answers import answer, listed
from oomph.diagnose.machine.base import Check
from oomph.diagnose.machine.cards import labels, nvidia_cards
from oomph.diagnose.machine.devices import read_devices
from oomph.diagnose.machine.model import Answer, Asked, Problem, Severity
from oomph.diagnose.machine.neighbours import draws, is_python, strangers
from oomph.diagnose.model import Certainty
from oomph.evidence.environment.model import Card, CardProcess, Environment, RankDevice, Variable
from oomph.evidence.model import Quote

#: NCCL, src/init.cc.
_DUPLICATE = re.compile(
    r"Duplicate GPU detected : rank (\d{1,7}) and rank (\d{1,7}) both on CUDA device ([0-9a-fA-F]{1,16})"
)
#: A launcher starts its processes one after the other; few others get an id in between.
_NEAR = 4
_HOSTS = ("HOSTNAME", "SLURMD_NODENAME", "SLURM_NODEID", "GROUP_RANK", "NODE_RANK")
_LOCALS = (
    "LOCAL_RANK",
    "SLURM_LOCALID",
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "MPI_LOCALRANKID",
    "PALS_LOCAL_RANKID",
)


class TwoRanksOnOneGpu(Check):
    """See the class attributes: they are the check's documentation."""

    code = "ENV208"
    cause = "two_ranks_on_one_gpu"
    name = "two-ranks-on-one-gpu"
    means = (
        "Two processes of one job use the same card: set_device(local_rank) is missing, or CUDA_VISIBLE_DEVICES is the "
        "same single card for all. NCCL refuses it; without NCCL the card is filled twice and another stays empty."
    )
    decisive_evidence = (
        'NCCL\'s "Duplicate GPU detected", two ranks that print the same uuid or bus id on one host, or the '
        "environments of two ranks. Two Python processes on one card alone are only a hint."
    )
    first_action = (
        "Give each rank its card: torch.cuda.set_device(local_rank) before anything else uses CUDA."
    )
    verify = (
        "Every rank prints another uuid: torch.cuda.get_device_properties(torch.cuda.current_device()).uuid."
    )
    wrong_advice = (
        "A smaller batch: it may fit twice on the card, and half of the machine stays idle. Every rank printing "
        "cuda:0 is "
        "no fault where each sees one card of its own."
    )

    def check(self, asked: Asked) -> Answer:
        environment = asked.environment
        said = [problem for quote in environment.errors if (problem := _said(quote)) is not None]
        if said:
            return answer(said[:1])
        problems, clear = _printed(environment)
        if not problems:
            more, seen = _dumps(environment)
            problems += more
            clear += seen
        if not problems and not clear:
            problems += _listed(environment)
        return answer(problems, clear)


_FIX = "Call torch.cuda.set_device(int(os.environ['LOCAL_RANK'])) first in every rank, and start them with torchrun."
_DOES = (
    'NCCL stops with "Duplicate GPU detected"; without NCCL the card holds two ranks\' memory and runs out.'
)


def _said(quote: Quote) -> Problem | None:
    match = _DUPLICATE.search(quote.text)
    if match is None:
        return None
    return Problem(
        f"NCCL found ranks {match[2]} and {match[1]} on the same card (bus {match[3]}).",
        does="The process group is not made: every rank stops.",
        fix=_FIX,
        paste="torch.cuda.set_device(int(os.environ['LOCAL_RANK']))",
        subject=f"ranks {match[2]} and {match[1]}",
        evidence=(quote,),
    )


def _printed(environment: Environment) -> tuple[list[Problem], list[str]]:
    """What ranks printed of their devices. The last word of a rank counts."""
    last = {(one.host, one.rank): one for one in environment.rank_devices}
    if len(last) < 2:
        return [], []
    problems: list[Problem] = []
    compared = 0
    for key in ("uuid", "bus_id"):
        groups: dict[tuple[str, str], list[RankDevice]] = {}
        for one in last.values():
            value = str(getattr(one, key)).lower()
            if value:
                # A uuid is one card in the world; a bus id one of its host.
                groups.setdefault(("" if key == "uuid" else one.host, value), []).append(one)
        compared += sum(len(those) for those in groups.values())
        for (_, value), those in groups.items():
            if len(those) > 1 and (key == "uuid" or _one_host(those)):
                problems.append(_same(those, value, Certainty.CERTAIN))
        if problems:
            return problems, []
    if compared >= 2:
        return [], [f"{compared} ranks are on as many cards"]
    return _by_index(environment, tuple(last.values()))


def _one_host(those: Sequence[RankDevice]) -> bool:
    """Whether ranks are on one host: all name it, or their local ranks differ (two hosts have the same ones)."""
    if all(one.host for one in those):
        return len({one.host for one in those}) == 1
    locals_ = [one.local_rank for one in those if one.local_rank is not None]
    return len(locals_) == len(those) == len(set(locals_))


def _by_index(environment: Environment, ranks: Sequence[RankDevice]) -> tuple[list[Problem], list[str]]:
    """Only the index as each process sees it: cuda:0 of two processes is one card if both see all of them."""
    groups: dict[tuple[str, int], list[RankDevice]] = {}
    for one in ranks:
        if one.device is not None:
            groups.setdefault((one.host, one.device), []).append(one)
    doubled = [those for those in groups.values() if len(those) > 1 and _one_host(those)]
    if not doubled:
        return [], ([f"{len(groups)} ranks use as many device indices"] if len(groups) > 1 else [])
    values = {
        one.rank: one.value for one in environment.all_of("CUDA_VISIBLE_DEVICES") if one.rank is not None
    }
    those = doubled[0]
    own = [values.get(one.rank) for one in those]
    if all(own) and len(set(own)) == len(own):
        return [], ["every rank sees another card as its own cuda:0 (CUDA_VISIBLE_DEVICES differs)"]
    torchrun = any(one.program in ("torchrun", "accelerate", "deepspeed") for one in environment.launches)
    return [_same(those, f"cuda:{those[0].device}", Certainty.LIKELY if torchrun else Certainty.POSSIBLE)], []


def _same(those: Sequence[RankDevice], value: str, certainty: Certainty) -> Problem:
    ranks = listed(str(one.rank) for one in sorted(those, key=lambda one: one.rank))
    unless = " (unless each of them sees a card of its own)" if certainty is Certainty.POSSIBLE else ""
    return Problem(
        f"Ranks {ranks} use the same card: {value}{unless}.",
        does=_DOES,
        fix=_FIX,
        paste="torch.cuda.set_device(int(os.environ['LOCAL_RANK']))",
        subject=f"ranks {ranks}",
        severity=Severity.ERROR,
        certainty=certainty,
        evidence=tuple(one.quote for one in those[:4]),
    )


def _dumps(environment: Environment) -> tuple[list[Problem], list[str]]:
    """Environments of several ranks: which card LOCAL_RANK is among those that each sees."""
    ranks = sorted({one.rank for one in environment.variables if one.rank is not None})
    by_rank = {rank: {one.name: one for one in environment.variables if one.rank == rank} for rank in ranks}
    placed: dict[tuple[str, str], list[int]] = {}
    quotes: dict[int, Quote] = {}
    for rank, names in by_rank.items():
        visible = names.get("CUDA_VISIBLE_DEVICES")
        if visible is None or not visible.value:
            continue
        seen = read_devices(visible.value).seen
        local = _number(names)
        host = next((f"{one}={names[one].value}" for one in _HOSTS if one in names), "")
        if local is None or not seen:
            continue
        # With a single visible card every rank uses that one, whatever its local rank.
        its = seen[0] if len(seen) == 1 else seen[local] if local < len(seen) else None
        if its is not None:
            placed.setdefault((host, str(its)), []).append(rank)
            quotes[rank] = visible.quote
    for (host, card), those in placed.items():
        if len(those) > 1 and (host or _locals_differ(by_rank, those)):
            ranks_text = listed(map(str, those))
            return [
                Problem(
                    f"The environments of ranks {ranks_text} lead to the same card ({card}): CUDA_VISIBLE_DEVICES is "
                    "the "
                    "same for them.",
                    does=_DOES,
                    fix="Leave CUDA_VISIBLE_DEVICES to the launcher, or give every rank another card.",
                    paste="unset CUDA_VISIBLE_DEVICES",
                    subject=f"ranks {ranks_text}",
                    certainty=Certainty.LIKELY,
                    evidence=tuple(quotes[one] for one in those[:4]),
                )
            ], []
    if len(quotes) > 1:
        return [], [f"the environments of {len(quotes)} ranks lead to as many cards"]
    return [], []


def _number(names: Mapping[str, Variable]) -> int | None:
    """The local rank of a rank's environment."""
    for one in _LOCALS:
        value = names[one].value if one in names else None
        if value is not None and re.fullmatch(r"[0-9]{1,6}", value):
            return int(value)
    return None


def _locals_differ(by_rank: Mapping[int, Mapping[str, Variable]], ranks: Sequence[int]) -> bool:
    values = [_number(by_rank[rank]) for rank in ranks]
    return None not in values and len(set(values)) == len(values)


def _listed(environment: Environment) -> list[Problem]:
    """Processes on the cards, where a job of several is known to run: a hint at most."""
    launched = any((one.processes or 0) > 1 for one in environment.launches)
    all_cards = nvidia_cards(environment)
    cards = [one for one in all_cards if one.processes]
    on = {id(card): [one for one in strangers(card) if is_python(one) and not draws(one)] for card in cards}
    where: dict[int, int] = {}
    for those in on.values():
        for one in those:
            where[one.pid] = where.get(one.pid, 0) + 1
    for card in cards:
        those = on[id(card)]
        also_elsewhere = [one for one in those if where[one.pid] > 1]
        if len(those) < 2 or not (launched or also_elsewhere or _one_launch(those, all_cards)):
            continue
        says = f"{len(those)} Python processes are on {labels([card])}"
        if also_elsewhere:
            says += f", {len(also_elsewhere)} of them on another card as well"
        return [
            Problem(
                f"{says}: ranks of one job may share the card.",
                does="Where a rank made a context on a card that is not its own (.cuda() or torch.load before "
                "set_device), "
                "that card loses some hundred MiB for each; where two ranks train on it, it runs out.",
                fix=_FIX,
                paste="torch.cuda.set_device(int(os.environ['LOCAL_RANK']))",
                subject=labels([card]),
                severity=Severity.WARNING,
                certainty=Certainty.POSSIBLE,
                numbers={"processes": len(those)},
                evidence=tuple(one.quote for one in those[:4]),
            )
        ]
    return []


def _one_launch(those: Sequence[CardProcess], cards: Sequence[Card]) -> bool:
    """Whether they look like one launcher's children (their ids are next to each other) while another card is idle."""
    pids = [one.pid for one in those]
    near = max(pids) - min(pids) < _NEAR * len(pids)
    idle = any(
        one.processes is not None and not [own for own in strangers(one) if not draws(own)] for one in cards
    )
    return near and idle
