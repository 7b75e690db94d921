"""Who is on a card, as its list of processes tells it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from oomph.diagnose.machine.idle import gone, listed_once
from oomph.evidence.environment.model import Card, CardProcess, Environment
from oomph.units import MIB, format_bytes

#: A desktop (Xorg, gnome-shell, a browser's window) takes 50 to 400 MiB of a card; more is worth a warning.
DESKTOP_BYTES = 512 * MIB

_DESKTOP = re.compile(
    r"xorg|xwayland|gnome|kwin|plasma|\bX\b|compiz|mutter|sddm|gdm|wayland|hyprland|sway|firefox|chrome|chromium|msedge|"
    r"explorer\.exe|dwm\.exe|shellexperience|searchhost|startmenu|textinput|systemsettings|widgets|lockapp|code\b|"
    r"slack|discord|teams|steam|nautilus|cinnamon|xfwm|obs\b|zoom|spotify|\.exe\Z",
    re.IGNORECASE,
)
_PYTHON = re.compile(r"(?:i?python[\d.]*w?(?:\.exe)?|pt_main_thread|torchrun)\Z", re.IGNORECASE)
_MPS = re.compile(r"nvidia-cuda-mps-server")


def strangers(card: Card) -> tuple[CardProcess, ...]:
    """Living processes that are not the job's, each pid once, the largest first; MPS's server is no stranger."""
    found: dict[int, CardProcess] = {}
    for one in listed_once(card):
        if one.ours or gone(one) or _MPS.search(one.name):
            continue
        held = found.get(one.pid)
        if held is None or (one.used_bytes or 0) > (held.used_bytes or 0):
            found[one.pid] = one
    return tuple(sorted(found.values(), key=lambda one: -(one.used_bytes or 0)))


def draws(process: CardProcess) -> bool:
    """Whether it is part of a desktop: the driver says that it draws, or its name does."""
    if process.kind == "G":
        return True
    last = process.name.replace("\\", "/").rpartition("/")[2]
    return process.kind == "C+G" and bool(_DESKTOP.search(last)) and not is_python(process)


def is_python(process: CardProcess) -> bool:
    """Whether the name is that of a Python interpreter, which says nothing of what it runs."""
    return bool(_PYTHON.match(process.name.split(" ")[0].replace("\\", "/").rpartition("/")[2]))


def like_one_job(environment: Environment, cards: Sequence[Card]) -> bool:
    """Whether a pasted list looks like one job's ranks: one Python process on each of several cards, with nothing else
    that computes. It may be the job that is asked about, and nobody said so."""
    if environment.live or len(cards) < 2:
        return False
    computing = [[one for one in strangers(card) if not draws(one)] for card in cards]
    busy = [those for those in computing if those]
    return (
        len(busy) > 1
        and all(len(those) == 1 and is_python(those[0]) for those in busy)
        and len({those[0].pid for those in busy}) == len(busy)
    )


def described(process: CardProcess) -> str:
    """`python (pid 4711, 30.00 GiB)`."""
    size = format_bytes(process.used_bytes) if process.used_bytes is not None else "size not told"
    name = process.name.split(" ")[0].replace("\\", "/").rpartition("/")[2] or "a process"
    return f"{name} (pid {process.pid}, {size})"
