"""What is known of a card beyond what its driver printed: the GPU of the table, its capability, its kind."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from oomph.errors import UsageError
from oomph.evidence.environment.model import Card, Environment
from oomph.hardware.drivers import family_capability
from oomph.hardware.gpus import Gpu
from oomph.hardware.names import gpu

_OTHER_MAKERS = re.compile(r"\b(?:amd|radeon|instinct|gfx\d|intel|arc)\b", re.IGNORECASE)
_MIG_NAME = re.compile(r"[\s-]MIG[\s-].*\Z", re.IGNORECASE)
_VGPU = re.compile(r"(?:^|\s)(?:GRID|NVIDIA|Tesla)\b.*-\d{1,3}[QCABV]\b", re.IGNORECASE)
#: The CPU's own memory and the GPU's are one address space, of which the operating system uses the GPU's part too.
_COHERENT = re.compile(r"\bG[HB]\d{2,3}\b")
_CONSUMER = re.compile(r"geforce|titan|\bgtx\b|\bmx\d{3}\b", re.IGNORECASE)
_WORKSTATION = re.compile(r"quadro|rtx a\d|rtx pro|ada generation|rtx \d{4} ada", re.IGNORECASE)
_DATACENTER = re.compile(
    r"tesla|\b(?:a2|a10g?|a16|a30|a40|a100|a800|b200|b300|gb200|gb300|gh200|h20|h100|h200|h800|l2|l4|l20|l40s?|t4g?|"
    r"v100s?|p100|p40|p4|k80|m60)\b",
    re.IGNORECASE,
)


def nvidia_cards(environment: Environment) -> tuple[Card, ...]:
    """The cards that NVIDIA made: what nvidia-smi lists, and what is not named otherwise."""
    return tuple(one for one in environment.cards if not _OTHER_MAKERS.search(one.name))


def label(card: Card) -> str:
    """`GPU 3`; without an index the name, or what else tells it from others."""
    if card.index is not None:
        return f"GPU {card.index}"
    return card.name or card.bus_id or card.uuid or "a GPU"


def labels(cards: Sequence[Card]) -> str:
    """`GPU 3`, `GPUs 0-7`, `GPUs 0, 2 and 5`; names where there is no index."""
    indices = sorted({one.index for one in cards if one.index is not None})
    if len(indices) != len(cards) or not indices:
        words = list(dict.fromkeys(label(one) for one in cards))
        return ", ".join(words)
    if len(indices) == 1:
        return f"GPU {indices[0]}"
    if len(indices) > 2 and indices[-1] - indices[0] == len(indices) - 1:
        return f"GPUs {indices[0]}-{indices[-1]}"
    return f"GPUs {', '.join(map(str, indices[:-1]))} and {indices[-1]}"


def known(card: Card) -> Gpu | None:
    """The GPU of the table with that name; None for a name that several have, or none."""
    return _known(_MIG_NAME.sub("", card.name).strip()) if card.name else None


@lru_cache(maxsize=256)
def _known(name: str) -> Gpu | None:
    try:
        return gpu(name)
    except UsageError:
        return None


def capability(card: Card) -> tuple[int, int] | None:
    """The compute capability: as told, else the table's, else that of the family its name tells."""
    if card.capability is not None:
        return card.capability
    found = known(card)
    if found is not None:
        return found.capability if found.is_cuda else None
    return family_capability(card.name) if card.name else None


def kind(card: Card) -> str:
    """datacenter, workstation, consumer; "" where the name does not tell."""
    found = known(card)
    if found is not None and found.kind:
        return found.kind
    for pattern, word in (
        (_CONSUMER, "consumer"),
        (_WORKSTATION, "workstation"),
        (_DATACENTER, "datacenter"),
    ):
        if pattern.search(card.name):
            return word
    return ""


def is_vgpu(card: Card) -> bool:
    """Whether the name is that of a virtual GPU ("GRID A100-10C", "NVIDIA A40-48Q")."""
    return bool(_VGPU.search(card.name)) and known(card) is None


def is_coherent(card: Card) -> bool:
    """Whether the operating system may keep pages in the card's memory (GH200, GB200, GB300, GB10)."""
    return bool(_COHERENT.search(card.name))


def is_windows(environment: Environment) -> bool:
    """Whether driver versions are Windows' own: Windows, and Linux in WSL, where its driver is shown."""
    if environment.wsl is not None and environment.wsl.value:
        return True
    system = environment.system.value.lower() if environment.system else ""
    return "windows" in system or any(one.driver_model for one in environment.cards)


def in_container(environment: Environment) -> str:
    """What container it is ("docker"), if one whose list of processes leaves out those outside; "" else. Apptainer and
    enroot share the host's process ids. For the live machine, each card says so itself (`Card.hidden`)."""
    word = environment.container.value.strip() if environment.container else ""
    if environment.live or word.lower() in ("", "no", "none", "false", "apptainer", "singularity", "enroot"):
        return ""
    return word
