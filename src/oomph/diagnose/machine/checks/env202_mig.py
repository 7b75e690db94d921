"""MIG: a card that is cut into instances."""

from __future__ import annotations

from collections.abc import Sequence

from oomph.diagnose.machine.answers import answer, counted, listed
from oomph.diagnose.machine.base import Check
from oomph.diagnose.machine.cards import labels, nvidia_cards
from oomph.diagnose.machine.model import Answer, Asked, Problem, Severity
from oomph.diagnose.model import Certainty
from oomph.errors import UsageError
from oomph.evidence.environment.model import Card, Environment, Launch
from oomph.hardware.names import gpu
from oomph.units import format_bytes


class Mig(Check):
    """See the class attributes: they are the check's documentation."""

    code = "ENV202"
    cause = "mig"
    name = "mig"
    means = (
        "MIG cuts a card into instances with memory of their own. A process sees one instance and never the whole "
        "card; "
        "with MIG on and no instance made, it sees no device at all. Between instances there is no peer-to-peer, and "
        "NCCL takes two of one card for one GPU."
    )
    decisive_evidence = "MIG Mode: Enabled in nvidia-smi, with its list of MIG devices."
    first_action = "Give the job whole cards (MIG off), or size it for one instance."
    verify = (
        "nvidia-smi -L lists the devices that the job is to use; torch.cuda.mem_get_info() shows the memory it "
        "has."
    )
    wrong_advice = (
        "Running data-parallel training over the instances of a card for more memory: each has only its own, and the "
        "work does not get faster than on the whole card."
    )

    def check(self, asked: Asked) -> Answer:
        environment = asked.environment
        cards = nvidia_cards(environment)
        cut = [one for one in cards if one.mig or one.mig_devices]
        if not cut:
            return answer([], ["MIG is off"] if any(one.mig is False for one in cards) else [])
        bare = [one for one in cut if not one.mig_devices]
        problems: list[Problem] = []
        untold: list[str] = []
        if bare and _lists_devices(environment, bare):
            problems.append(_without_instances(bare, cards))
        elif bare:
            untold.append(f"which MIG devices {labels(bare)} have: nvidia-smi -L lists them")
        sliced = [one for one in cut if one.mig_devices]
        clear: list[str] = []
        if sliced:
            problem = _several_processes(environment, sliced)
            whole = _believes_in_a_whole_card(asked, sliced)
            problems += [one for one in (problem, whole) if one is not None]
            clear.append(f"MIG is on: {_instances(sliced)}; a process sees one of them")
        return answer(problems, clear, untold)


def _lists_devices(environment: Environment, bare: Sequence[Card]) -> bool:
    """Whether the text that told of the card would have listed its MIG devices: `nvidia-smi -q`, its table and its XML
    do; a query for columns does not."""
    if environment.live:
        return True
    names = {one.quote.source for one in bare}
    kinds = " ".join(kind.lower() for source, kind in environment.sources if source in names)
    return not ("csv" in kinds or "query-gpu" in kinds) or "-q" in kinds.split()


def _instances(cards: Sequence[Card]) -> str:
    """`2 x 3g.20gb (19.50 GiB)`; texts that tell the profile and others that tell the size are not added up."""
    devices = [one for card in cards for one in card.mig_devices]
    named = [one for one in devices if one.profile] or devices
    profiles: dict[str, int] = {}
    for one in named:
        size = format_bytes(one.total_bytes) if one.total_bytes else ""
        name = f"{one.profile} ({size})" if one.profile and size else one.profile or size or "MIG device"
        profiles[name] = profiles.get(name, 0) + 1
    return listed(f"{count} x {name}" for name, count in profiles.items())


def _without_instances(bare: Sequence[Card], cards: Sequence[Card]) -> Problem:
    rest = len(cards) - len(bare)
    first = bare[0].index if bare[0].index is not None else 0
    return Problem(
        f"MIG is on for {labels(bare)}, and no instance is made.",
        does="CUDA sees no device there"
        + (
            ": torch.cuda.is_available() is False."
            if not rest
            else f"; {counted(rest, 'other card')} can be used."
        ),
        fix="Switch MIG off for whole cards, or make instances.",
        paste=f"sudo nvidia-smi -i {first} -mig 0",
        subject=labels(bare),
        certainty=Certainty.LIKELY,
        evidence=(bare[0].quote,),
    )


def _processes(environment: Environment) -> Launch | None:
    return next((one for one in environment.launches if (one.processes or 0) > 1), None)


def _several_processes(environment: Environment, sliced: Sequence[Card]) -> Problem | None:
    launch = _processes(environment)
    whole = len([one for one in nvidia_cards(environment) if not one.mig and not one.mig_devices])
    if launch is None or (launch.processes or 0) <= whole:
        return None
    return Problem(
        f"{launch.processes} processes are started on a machine with MIG instances ({_instances(sliced)}).",
        does="A process sees one MIG device. NCCL takes instances of one card for the same GPU and stops with "
        '"Duplicate GPU detected" (its newest versions can be told otherwise, without peer-to-peer).',
        fix="Train on one instance with one process, or switch MIG off and use the whole card.",
        subject=labels(sliced),
        severity=Severity.WARNING,
        certainty=Certainty.LIKELY,
        numbers={"processes": launch.processes or 0},
        evidence=(sliced[0].quote, launch.quote),
    )


def _believes_in_a_whole_card(asked: Asked, sliced: Sequence[Card]) -> Problem | None:
    sizes = [one.total_bytes for card in sliced for one in card.mig_devices if one.total_bytes]
    total = _planned_for(asked)
    if not sizes or not total or max(sizes) >= 0.9 * total:
        return None
    return Problem(
        f"The job is for a GPU of {format_bytes(total)}, and the largest MIG device here has "
        f"{format_bytes(max(sizes))}.",
        does="The job runs out of memory where it would fit on a whole card.",
        fix="Switch MIG off, or plan the job for the instance.",
        subject=labels(sliced),
        severity=Severity.WARNING,
        certainty=Certainty.LIKELY,
        numbers={"needed_bytes": total, "instance_bytes": max(sizes)},
        evidence=(sliced[0].quote,),
    )


def _planned_for(asked: Asked) -> int:
    """Memory of the GPU that the job is planned for, in bytes; 0 where that is not said."""
    if asked.job is None:
        return 0
    hardware = asked.job.hardware
    if not hardware.gpu:
        return hardware.capacity_bytes or 0
    try:
        return gpu(hardware.gpu).total_bytes
    except UsageError:
        return 0
