"""Fewer GPUs are there than the machine type has."""

from __future__ import annotations

from oomph.diagnose.machine.base import Check
from oomph.diagnose.machine.model import Answer, Asked, Clear, CouldNotTell, NotHere, Problem
from oomph.diagnose.machine.settings import counted, gpus, machine_of, quotes, value_of
from oomph.evidence.environment.model import Environment


class FewerGpus(Check):
    """See the class attributes: they are the check's documentation."""

    code = "ENV301"
    cause = "fewer_gpus_than_the_machine_type"
    name = "fewer-gpus-than-the-machine-type"
    means = (
        "The cloud sells this machine type with more GPUs than the driver lists. One has fallen off the bus or was "
        "not initialised, or the machine is another than it is taken for. A job that starts one process per expected "
        "GPU fails, or puts two ranks on one card."
    )
    decisive_evidence = (
        "The driver's list of cards on the whole machine, against the table of machine types. A container, a Slurm "
        "allocation or CUDA_VISIBLE_DEVICES that shows fewer on purpose proves nothing."
    )
    first_action = "Compare `lspci | grep -i nvidia` with nvidia-smi, and look for Xid 79 in the kernel log."
    verify = "nvidia-smi lists as many GPUs as the machine type has."
    wrong_advice = (
        "Lowering the number of processes to what is left: the machine is broken and is paid for whole."
    )

    def check(self, asked: Asked) -> Answer:
        environment = asked.environment
        if environment.machine_type is None:
            return NotHere()
        machine = machine_of(environment)
        if machine is None:
            name = environment.machine_type.value
            return CouldNotTell(
                f"the machine type {name} is not in the table, so its number of GPUs is not known"
            )
        if not environment.tells("cards"):
            return CouldNotTell(f"no list of GPUs: `nvidia-smi -L` on the {machine.name} tells it")
        cards = {(card.index, card.bus_id, card.uuid) for card in environment.cards}
        if any(card == (None, "", "") for card in cards):
            return CouldNotTell("the text names cards without listing all: `nvidia-smi -L` lists them")
        found, wanted = len(cards), machine.count or 1
        if found >= wanted:
            return Clear(f"{counted(found, 'GPU')} of {wanted} of {machine.name}")
        why = _on_purpose(environment, found)
        if why:
            return Clear(f"{found} of the {wanted} GPUs of {machine.name} are shown, because {why}")
        if value_of(environment, "SLURM_JOB_ID") is not None:
            return CouldNotTell(
                f"{found} of {wanted} GPUs are shown inside a Slurm job, which may have asked for no more: "
                "`scontrol show job` tells it"
            )
        return (
            Problem(
                says=f"{machine.name} has {wanted} GPUs, and the driver lists {found}.",
                does=f"A job with one process per GPU has no card for {wanted - found} of them.",
                fix="Look for a card that fell off the bus; if there is one, replace the machine.",
                paste="lspci | grep -ci nvidia; nvidia-smi -L | wc -l; sudo dmesg | grep -iE 'xid|fallen off'",
                subject=machine.name,
                numbers={"gpus": found, "gpus_of_the_type": wanted},
                evidence=quotes(environment.machine_type),
            ),
        )


def _on_purpose(environment: Environment, found: int) -> str:
    given = [one.gpus for one in environment.launches if one.gpus is not None]
    if given and max(given) <= found:
        return f"the job was given {max(given)}"
    if environment.container is not None:
        return "a container shows those that it was given"
    visible = value_of(environment, "NVIDIA_VISIBLE_DEVICES")
    if visible and visible not in ("all", "void", "none"):
        return f"NVIDIA_VISIBLE_DEVICES is {visible}"
    if environment.variable("CUDA_VISIBLE_DEVICES") is not None and gpus(environment) == found:
        return "CUDA_VISIBLE_DEVICES names as many"
    return ""
