"""What a kind of change knows: which facts are of it, and what such a change does to memory."""

from __future__ import annotations

import re
from dataclasses import dataclass

from oomph.diagnose.runs.model import Change, Suspicion, as_number
from oomph.diagnose.runs.situation import Situation


@dataclass(frozen=True)
class Judged:
    """What is known before memory is looked at.

    effect: a sentence. prior: how much such changes matter (LIKELY, POSSIBLE, UNLIKELY, HARMLESS). direction: +1 it
    needs more memory, -1 less, 0 not known. phases: whose peaks it moves ("" in it: all). parts: numbers that it moves
    (keys of situation.PARTS). expected_bytes: what it would add at the peak, by the first run's own numbers. weight
    orders changes of one suspicion.
    """

    effect: str
    prior: Suspicion = Suspicion.POSSIBLE
    direction: int = 0
    phases: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()
    expected_bytes: int | None = None
    sources: tuple[str, ...] = ()
    weight: float = 0.0


class Kind:
    """A kind of change. `keys` are patterns of whole names of facts (case does not matter), asked in `order`."""

    name = ""
    order = 50
    keys: tuple[str, ...] = ()

    def wants(self, key: str) -> bool:
        """Whether a fact is of this kind. A rank's own value ("rank.3.environment.X") is of the kind of the value."""
        return any(re.fullmatch(pattern, plain(key), re.IGNORECASE) for pattern in self.keys)

    def judge(self, change: Change, situation: Situation) -> Judged:
        """What such a change does to memory."""
        raise NotImplementedError


def plain(key: str) -> str:
    """A fact's name without the rank whose it is."""
    return re.sub(r"\Arank\.\d+\.", "", key)


def argument(*names: str) -> str:
    """A pattern of training arguments with one of these names, at any depth (`training.local_batch_size`)."""
    return rf"arguments\.(?:.+\.)?(?:{'|'.join(names)})"


def ratio(change: Change) -> float | None:
    """after / before, where both are numbers above 0."""
    before, after = as_number(change.before), as_number(change.after)
    if before is None or after is None or before <= 0 or after <= 0:
        return None
    return after / before


def switched(change: Change) -> int:
    """+1 for something that was switched on, -1 for off, 0 for neither."""
    before, after = is_on(change.before), is_on(change.after)
    return (after and not before) - (before and not after)


def is_on(value: object) -> bool:
    """Whether a flag's value says yes."""
    return str(value).strip().lower() not in (
        "none",
        "false",
        "0",
        "no",
        "off",
        "",
        "never",
        "[]",
        "{}",
        "disabled",
    )


def times(value: float) -> str:
    """2.0 -> "2", 0.75 -> "0.75"."""
    return f"{value:.3g}"


def sign(value: float) -> int:
    """-1, 0 or 1."""
    return (value > 0) - (value < 0)
