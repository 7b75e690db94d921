"""Memory of a card that no listed process owns, against what an idle card uses."""

from __future__ import annotations

import re
from dataclasses import dataclass

from oomph.diagnose.machine.cards import in_container, is_coherent, is_vgpu, is_windows
from oomph.evidence.environment.model import Card, CardProcess, Environment
from oomph.hardware.drivers import numbers
from oomph.units import MIB

#: An idle card uses some MiB (0 to 20 in nvidia-smi's tables), and the smallest CUDA context that was reported takes
#: 273.75 MiB (pytorch/pytorch pull request 86509): what is more than this was allocated by a program.
IDLE_BYTES = 256 * MIB
#: The most that the driver keeps for itself and does not always tell apart (GH200: nvidia-smi's total less CUDA's).
RESERVED_BYTES = 1106 * MIB
#: A screen without a listed owner.
SCREEN_BYTES = 512 * MIB
#: A Windows desktop with a browser takes up to about 2 GiB of the card that shows it; its driver names no owner.
WINDOWS_BYTES = 2048 * MIB
#: With living processes: managed memory is in no process's figure.
BESIDE_PROCESSES_BYTES = 1024 * MIB
#: From this branch on nvidia-smi tells "Reserved" apart; before it the total leaves it out.
_TELLS_RESERVED = 510
_ROUNDING = 4 * MIB
#: What nvidia-smi prints in place of a name.
_NAMELESS = re.compile(r"\A\[?(?:not found|unknown error)\]?\Z", re.IGNORECASE)


@dataclass(frozen=True)
class Unowned:
    """`bytes` that no listed process owns, and whether that is more than idling explains. `blind` says why the list
    proves nothing, "" where it does; `missing` what was not told at all."""

    bytes: int = 0
    much: bool = False
    blind: str = ""
    missing: str = ""


def unowned(environment: Environment, card: Card) -> Unowned:
    """What the card's figures leave over. With `missing`, nothing could be computed."""
    if card.used_bytes is None:
        return Unowned(missing="how much memory is used: nvidia-smi tells it")
    if is_coherent(card):
        return Unowned(
            missing=f"how much of it the operating system uses: it may use the memory of a {card.name} itself"
        )
    used = _without_reserved(card)
    allowed = IDLE_BYTES + (RESERVED_BYTES if _may_hold_reserved(environment, card) else 0)
    allowed += SCREEN_BYTES if card.display_active else 0
    allowed += RESERVED_BYTES if is_vgpu(card) else 0
    if is_windows(environment):
        allowed = max(allowed, WINDOWS_BYTES)
    if card.processes is None:
        return Unowned(used, used > allowed, missing="which processes use it: nvidia-smi lists them")
    living = listed_once(card)
    if any(one.used_bytes is None for one in living):
        owner = next(one for one in living if one.used_bytes is None)
        return Unowned(missing=f"how much process {owner.pid} uses: the driver does not tell here")
    owned = sum(one.used_bytes or 0 for one in living)
    rest = max(0, used - owned)
    if owned:
        allowed = max(allowed, BESIDE_PROCESSES_BYTES)
    return Unowned(rest, rest > allowed, blind=_blind(environment, card))


def listed_once(card: Card) -> tuple[CardProcess, ...]:
    """The processes of a card, each line once: a process with graphics and compute may stand there twice."""
    found: dict[tuple[int, int | None], CardProcess] = {}
    for one in card.processes or ():
        found.setdefault((one.pid, one.used_bytes), one)
    return tuple(found.values())


def gone(process: CardProcess) -> bool:
    """Whether the process is not there any more: it was looked for, or nvidia-smi could not read its name. (That of a
    process in another container cannot be read either.)"""
    return process.alive is False or (process.alive is None and bool(_NAMELESS.search(process.name)))


def _blind(environment: Environment, card: Card) -> str:
    container = in_container(environment)
    if card.hidden:
        return card.hidden
    if container:
        return f"in a container ({container}) the list leaves out what runs outside it"
    if is_windows(environment):
        return "on Windows and in WSL the driver does not tell what a process uses"
    if card.mig:
        return "with MIG the list leaves out what other users' instances run"
    if not card.processes and card.utilization:
        return f"the card is {card.utilization} % busy and no process is listed"
    if not environment.live and not any(one.processes for one in environment.cards):
        return (
            "an empty list is also what a container shows, and the text does not say where it was printed (on the host "
            "it means that a process died and left its memory: zombies, or children of it)"
        )
    return ""


def _without_reserved(card: Card) -> int:
    used = card.used_bytes or 0
    if card.reserved_bytes and _adds_up(card):
        return max(0, used - card.reserved_bytes)
    return used


def _adds_up(card: Card) -> bool:
    """Whether used and free make the total, so that what the driver keeps is in one of them."""
    if card.total_bytes is None or card.free_bytes is None or card.used_bytes is None:
        return False
    return abs(card.used_bytes + card.free_bytes - card.total_bytes) <= _ROUNDING


def _may_hold_reserved(environment: Environment, card: Card) -> bool:
    if card.reserved_bytes is not None or not _adds_up(card):
        return False
    driver = numbers(environment.driver.value) if environment.driver else ()
    return not driver or driver[0] >= _TELLS_RESERVED
