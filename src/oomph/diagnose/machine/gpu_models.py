"""Which GPUs a name can mean: names of cards, of machine types' GPUs, and of labels in manifests."""

from __future__ import annotations

import re

from oomph.errors import UsageError
from oomph.hardware.gpus import Gpu
from oomph.hardware.names import gpu
from oomph.hardware.tables import Machine, all_gpus

#: A MIG profile behind a name ("-MIG-1g.10gb"), and what labels add to one ("nvidia-h100-mega-80gb").
_MIG = re.compile(r"[-_ ]mig[-_ ].*", re.IGNORECASE)
_WORD = re.compile(r"[a-z0-9]+")
#: GeForce cards with a connector for an NVLink bridge.
_BRIDGED = ("rtx-3090", "rtx-2080")
#: What a virtual GPU adds: "GRID T4-16Q" is a part of a T4.
_VIRTUAL = re.compile(r"(?:^grid )|(?:-[0-9]{1,3}[abcq]\Z)", re.IGNORECASE)
_EMPTY = frozenset(
    (
        "nvidia",
        "tesla",
        "geforce",
        "gpu",
        "mega",
        "ultra",
        "virtual",
        "workstation",
        "vws",
        "shared",
        "nvlink",
    )
)


def meant(name: str) -> tuple[Gpu, ...]:
    """The GPUs that the name can mean; none where it is not known."""
    text = _VIRTUAL.sub("", _MIG.sub("", name.strip()))
    try:
        return (gpu(text),)
    except UsageError:
        pass
    words = set(_WORD.findall(text.lower())) - _EMPTY
    if not words or not any(any(letter.isdigit() for letter in word) for word in words):
        return ()
    return tuple(
        each
        for each in all_gpus()
        if any(words <= set(_WORD.findall(known.lower())) for known in (each.name, *each.aliases))
    )


def of_machine(machine: Machine) -> tuple[Gpu, ...]:
    """The GPUs that a machine type can have."""
    return meant(machine.gpu)


def agree(one: tuple[Gpu, ...], other: tuple[Gpu, ...]) -> bool:
    """Whether two names can mean the same. GPUs of one model and size that differ in their connector only (PCIe, SXM)
    count as the same: names are rarely that exact."""
    return bool({_model(each) for each in one} & {_model(each) for each in other})


def has_p2p(name: str) -> bool | None:
    """Whether cards of that name can copy directly to each other; None where it depends on a bridge or is not known.

    GeForce cards do not over PCIe: NVIDIA's driver leaves it out. Some before Ada take an NVLink bridge, which does
    it: RTX 3090 (Ti), 2080 (Ti, SUPER). Later ones have no NVLink (NVIDIA's specifications of the cards).
    """
    found = meant(name)
    if not found:
        return None
    if any(each.kind != "consumer" for each in found):
        return True if all(each.kind != "consumer" for each in found) else None
    return None if any(each.short_name.startswith(_BRIDGED) for each in found) else False


def listed(gpus: tuple[Gpu, ...]) -> str:
    """Their names in a sentence, at most three: A100-SXM4-80GB or A100-PCIE-80GB."""
    names = list(dict.fromkeys(each.name for each in gpus))[:3]
    return " or ".join(names)


def _model(each: Gpu) -> tuple[str, tuple[int, int], int]:
    return each.short_name.split("-")[0], each.capability, each.memory_gb
