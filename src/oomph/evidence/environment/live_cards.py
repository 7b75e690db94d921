"""The GPUs of this machine: by NVML where nvidia-ml-py is installed, else by the text of `nvidia-smi -q`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from oomph.evidence.environment.found import Found
from oomph.evidence.environment.live_text import parsed
from oomph.evidence.environment.model import Card, CardProcess, MigDevice
from oomph.evidence.model import Quote
from oomph.probe import processes
from oomph.probe.machine.details import CardDetails, Describes, NvmlDetails
from oomph.probe.machine.nvml import Unavailable
from oomph.probe.machine.smi_text import SmiText
from oomph.probe.surroundings.seen import ROOT, under

_INSTALL = "nvidia-ml-py is not installed (pip install 'oomph[gpu]')"


def cards(found: Found, missing: dict[str, str], root: Path = ROOT) -> bool:
    """Adds the cards with the driver's versions; returns whether any could be asked for. Another root has none."""
    if root != ROOT:
        missing["cards"] = "only this machine's own driver can be asked"
        return False
    try:
        by_nvml(NvmlDetails(), found)
    except ImportError:
        reason = _INSTALL
    except Unavailable as error:
        reason = str(error)
        if "mismatch" in reason.lower():
            found.add_error(Quote("NVML", 0, reason))
    else:
        return True
    smi = SmiText()
    by_smi(smi, found)
    if found.cards:
        return True
    said = smi.why or "nvidia-smi lists no GPU"
    missing["cards"] = f"no GPU can be read: {reason}, and {said}"
    return False


def by_nvml(machine: Describes, found: Found) -> None:
    """What NVML tells."""
    told = machine.details()
    found.take(told.source, "GPUs, their state, and the processes on them")
    found.told.add("cards")
    if told.driver:
        found.add("drivers", told.driver, Quote(told.source, 0, f"driver {told.driver}"))
    if told.cuda:
        found.tell("driver_cuda", told.cuda, Quote(told.source, 0, f"CUDA {told.cuda}"))
    for card in told.cards:
        if card.missing:
            found.note(f"GPU {card.index}: {card.missing}.")
            found.add_error(Quote(told.source, 0, f"GPU {card.index}: {card.missing}"))
        found.add_card(_card(card, told.source))


def by_smi(smi: SmiText, found: Found) -> None:
    """What `nvidia-smi -q` prints, and each card's compute capability beside it."""
    parsed(smi.text, "nvidia-smi -q", "nvidia-smi -q", found)
    if not found.cards:
        return
    told = smi.capabilities()
    found.cards = [
        replace(card, capability=told[card.uuid]) if card.uuid in told and card.capability is None else card
        for card in found.cards
    ]


def with_processes(
    cards: Sequence[Card], root: Path, hidden: str, pid: int | None = None
) -> tuple[Card, ...]:
    """The cards with what /proc tells of their processes: names, which are dead, which belong to the job of `pid`.
    `hidden`: why /proc does not show all."""
    return tuple(
        card
        if card.processes is None
        else replace(
            card,
            processes=tuple(_process(one, root, hidden, pid) for one in card.processes),
            hidden=card.hidden or hidden,
        )
        for card in cards
    )


def _process(one: CardProcess, root: Path, hidden: str, pid: int | None) -> CardProcess:
    proc = under(root, "/proc")
    state = processes.state(one.pid, proc)
    if not state:
        # In a namespace of its own the driver's numbers are others than those of /proc here.
        return one if hidden else replace(one, alive=False)
    if hidden:
        return one
    ours = pid is not None and processes.descends(one.pid, frozenset((pid,)), proc)
    return replace(
        one, alive=state not in ("Z", "X"), name=processes.name(one.pid, proc) or one.name, ours=ours
    )


def _card(card: CardDetails, source: str) -> Card:
    quote = Quote(source, 0, f"GPU {card.index}: {card.name or 'no name'}")
    listed = None
    if card.processes is not None:
        listed = tuple(
            CardProcess(one.pid, one.used_bytes, one.name, one.kind, Quote(source, 0, f"process {one.pid}"))
            for one in card.processes
        )
    return Card(
        quote=quote,
        index=card.index,
        uuid=card.uuid,
        bus_id=card.bus_id,
        name=card.name,
        capability=card.capability,
        total_bytes=card.total_bytes,
        used_bytes=card.used_bytes,
        free_bytes=card.free_bytes,
        reserved_bytes=card.reserved_bytes,
        utilization=card.utilization,
        persistence=card.persistence,
        mig=card.mig,
        mig_devices=tuple(MigDevice(part.profile, part.total_bytes, part.uuid) for part in card.parts),
        ecc=card.ecc,
        ecc_uncorrected=card.ecc_uncorrected,
        remap_pending=card.remap_pending,
        remap_failed=card.remap_failed,
        compute_mode=card.compute_mode,
        display_active=card.display_active,
        driver_model=card.driver_model,
        processes=listed,
    )
