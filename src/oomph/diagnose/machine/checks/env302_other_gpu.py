"""The GPU is another than the machine type, a manifest or a script says."""

from __future__ import annotations

from oomph.diagnose.machine.base import Check
from oomph.diagnose.machine.gpu_models import agree, listed, meant, of_machine
from oomph.diagnose.machine.model import Answer, Asked, Clear, CouldNotTell, NotHere, Problem
from oomph.diagnose.machine.settings import machine_of, quotes
from oomph.evidence.model import Quote
from oomph.hardware.gpus import Gpu


class OtherGpu(Check):
    """See the class attributes: they are the check's documentation."""

    code = "ENV302"
    cause = "other_gpu_than_believed"
    name = "other-gpu-than-believed"
    means = (
        "Two of these name different GPUs: the cards, the machine type, and what a manifest or a script expects. Names "
        "of machine types mislead: Google's a2-highgpu and a2-megagpu have A100s of 40 GB, a2-ultragpu A100s of 80 GB; "
        "none has an H100 (those begin with a3)."
    )
    decisive_evidence = (
        "The name that the driver prints, or the table of machine types, against the expected name."
    )
    first_action = (
        "Correct the expectation (label, comment, budget), or ask for the machine type that has the GPU."
    )
    verify = "`nvidia-smi --query-gpu=name,memory.total --format=csv` prints the GPU that the job counts on."
    wrong_advice = "Tuning the job until it fits without asking which card it runs on."

    def check(self, asked: Asked) -> Answer:
        environment = asked.environment
        machine = machine_of(environment)
        sides: list[tuple[str, tuple[Gpu, ...], tuple[Quote, ...]]] = []
        unknown: list[str] = []
        for name in dict.fromkeys(card.name for card in environment.cards if card.name):
            quote = next(card.quote for card in environment.cards if card.name == name)
            _add(sides, unknown, f"The card is {name}", name, (quote,))
        if machine is not None and environment.machine_type is not None:
            sides.append((f"{machine.name} has", of_machine(machine), quotes(environment.machine_type)))
        elif environment.machine_type is not None:
            unknown.append(environment.machine_type.value)
        facts = len(sides)
        for told in environment.expected_gpus:
            _add(sides, unknown, f"{told.value} is expected", told.value, (told.quote,))
        if not environment.expected_gpus and environment.machine_type is None:
            return NotHere()
        problems = _cards_against_machine(sides[:facts], machine is not None)
        for says, wanted, evidence in sides[facts:]:
            other = next((side for side in sides[:facts] if not agree(side[1], wanted)), None)
            if other is not None:
                problems.append(_problem(other, (says, wanted, evidence)))
        if problems:
            return tuple(problems)
        if unknown:
            return CouldNotTell(f"no GPU is known by the name {unknown[0]}")
        if len(sides) < 2:
            return CouldNotTell(
                "only one source names a GPU: the output of `nvidia-smi -L` would tell the other side"
            )
        return Clear(f"all name the same GPU: {listed(sides[0][1])}")


def _add(
    sides: list[tuple[str, tuple[Gpu, ...], tuple[Quote, ...]]],
    unknown: list[str],
    says: str,
    name: str,
    evidence: tuple[Quote, ...],
) -> None:
    found = meant(name)
    if found:
        sides.append((says, found, evidence))
    else:
        unknown.append(name)


def _cards_against_machine(
    sides: list[tuple[str, tuple[Gpu, ...], tuple[Quote, ...]]], has_machine: bool
) -> list[Problem]:
    if not has_machine:
        return []
    *cards, machine = sides
    return [_problem(machine, card) for card in cards if not agree(card[1], machine[1])]


def _problem(
    fact: tuple[str, tuple[Gpu, ...], tuple[Quote, ...]],
    other: tuple[str, tuple[Gpu, ...], tuple[Quote, ...]],
) -> Problem:
    has = fact[0] if fact[0].startswith("The card") else f"{fact[0]} {listed(fact[1])}"
    return Problem(
        says=f"{has}, and {other[0][0].lower()}{other[0][1:]}.",
        does=(
            f"The memory differs: {fact[1][0].memory_gb} GB a card against {other[1][0].memory_gb} GB."
            if fact[1][0].memory_gb != other[1][0].memory_gb
            else "Architecture and speed differ, and with them what the build and the kernels can do."
        ),
        fix="Correct the name, or ask for a machine that has the GPU.",
        paste="nvidia-smi --query-gpu=name,memory.total --format=csv",
        subject=fact[1][0].name,
        numbers={"memory_gb": fact[1][0].memory_gb, "other_memory_gb": other[1][0].memory_gb},
        evidence=tuple(dict.fromkeys((*fact[2], *other[2]))),
    )
