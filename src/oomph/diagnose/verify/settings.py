"""What the checks ask for: defaults, and the text that people write for each. UsageError: it makes no sense.

Defaults are conventions, not measurements: 10 % of the card is what fragmentation, a longer batch and another driver
usually need; ranks of one job that share its work evenly differ by less than 10 %.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from oomph.errors import UsageError
from oomph.phases import Phase
from oomph.units import format_bytes, size_given

Counter = Literal["allocated", "reserved", "active"]
HeadroomOf = Literal["both", "allocated", "reserved"]

_PERCENT = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,6})?)\s*%\Z")
#: The phase word of a limit that holds for every phase.
PEAK = "peak"


@dataclass(frozen=True)
class Amount:
    """A share of something in per cent, or bytes."""

    percent: float | None = None
    size_bytes: int | None = None

    def of(self, whole_bytes: int) -> int:
        """The bytes that it is of `whole_bytes`."""
        if self.size_bytes is not None:
            return self.size_bytes
        return round(whole_bytes * (self.percent or 0.0) / 100)

    def __str__(self) -> str:
        return format_bytes(self.size_bytes) if self.size_bytes is not None else f"{self.percent or 0.0:g} %"


@dataclass(frozen=True)
class Limit:
    """No peak of `counter` in `phase` (None: in any) may be above `size_bytes`."""

    phase: Phase | None
    counter: Counter
    size_bytes: int

    @property
    def subject(self) -> str:
        """As it is written before the "=": "allocated:backward", "backward"."""
        name = PEAK if self.phase is None else self.phase.value
        return name if self.counter == "reserved" else f"{self.counter}:{name}"


@dataclass(frozen=True)
class Settings:
    """What is asked. `headroom` at the peak, `headroom_first` before the first step (None: the same). `headroom_of`:
    which memory counts as taken: what is reserved, what is allocated, or both: passed by what is reserved, failed by
    what is allocated. `growth_bytes` per step is no growth, and less than `growth_steps` steps tell nothing.
    `select` and `ignore` are names of checks; without `select` all."""

    headroom: Amount = Amount(percent=10.0)
    headroom_first: Amount | None = None
    headroom_of: HeadroomOf = "both"
    limits: tuple[Limit, ...] = ()
    growth_bytes: int = 4096
    growth_steps: int = 8
    ranks: Amount = Amount(percent=10.0)
    retries: int = 0
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    strict: bool = False


def amount(source: str, text: object) -> Amount:
    """A share ("10%") or a size. `source` is where it was written."""
    if isinstance(text, int) and not isinstance(text, bool):
        text = str(text)
    if isinstance(text, str):
        percent = _PERCENT.match(text.strip())
        if percent is not None and float(percent[1]) <= 100:
            return Amount(percent=float(percent[1]))
        size = 0 if text.strip() == "0" else size_given(text)
        if size is not None:
            return Amount(size_bytes=size)
    raise UsageError(f"{source} {_shown(text)}: give a share of the card (10%) or a size (4GiB)")


def limit(text: str) -> Limit:
    """A limit as it is written: "backward=30GiB", "allocated:eval=20GiB", "peak=70GiB"."""
    what, equals, size = text.partition("=")
    if not equals:
        raise UsageError(
            f"--limit {_shown(text)}: write it as PHASE=SIZE or COUNTER:PHASE=SIZE, like backward=30GiB"
        )
    return limit_of(f"--limit {what.strip()[:60]}", what, size)


def limit_of(source: str, what: str, size: object) -> Limit:
    """One limit: `what` is a phase, or a counter and a phase."""
    counter, colon, name = what.strip().lower().rpartition(":")
    found: Counter = "reserved"
    if colon:
        matching = [each for each in get_args(Counter) if each == counter]
        if not matching:
            raise UsageError(f"{source}: a counter is {', '.join(get_args(Counter))}")
        found = matching[0]
    return Limit(phase_named(source, name), found, _size(source, size))


def phase_named(source: str, name: str) -> Phase | None:
    """A phase by its name; None for "peak"."""
    word = name.strip().lower()
    if word == PEAK:
        return None
    try:
        return Phase(word)
    except ValueError:
        known = ", ".join(phase.value for phase in Phase if phase is not Phase.UNKNOWN)
        raise UsageError(f"{source}: a phase is {known}, or peak for any of them") from None


def _size(source: str, size: object) -> int:
    if isinstance(size, int) and not isinstance(size, bool):
        size = str(size)
    found = size_given(size) if isinstance(size, str) else None
    if found is None:
        raise UsageError(f"{source} = {_shown(size)}: give a size, like 30GiB")
    return found


def from_table(table: Mapping[str, object], source: str, names: Iterable[str], base: Settings) -> Settings:
    """The settings of a TOML table on top of `base`. `names` are those of the checks. Unknown keys are refused."""
    readers: dict[str, Callable[[str, object], dict[str, Any]]] = {
        "headroom": lambda key, value: {"headroom": amount(key, value)},
        "headroom_first": lambda key, value: {"headroom_first": amount(key, value)},
        "headroom_of": lambda key, value: {"headroom_of": _word(key, value, get_args(HeadroomOf))},
        "limits": lambda key, value: {"limits": _limits(key, value)},
        "growth": lambda key, value: {"growth_bytes": _growth(key, value)},
        "growth_steps": lambda key, value: {"growth_steps": _number(key, value, 4)},
        "ranks": lambda key, value: {"ranks": amount(key, value)},
        "retries": lambda key, value: {"retries": _number(key, value, 0)},
        "select": lambda key, value: {"select": checks_named(key, value, names)},
        "ignore": lambda key, value: {"ignore": checks_named(key, value, names)},
        "strict": lambda key, value: {"strict": _flag(key, value)},
    }
    unknown = sorted(set(table) - set(readers))
    if unknown:
        raise UsageError(f"{source}: unknown key {_shown(unknown[0])}; known are {', '.join(readers)}")
    for key, value in table.items():
        base = replace(base, **readers[key](f"{source}: {key}", value))
    return base


def checks_named(source: str, value: object, names: Iterable[str]) -> tuple[str, ...]:
    """Names of checks, from a list or from words with commas."""
    known = tuple(names)
    words = value.split(",") if isinstance(value, str) else value
    if not isinstance(words, (list, tuple)) or not all(isinstance(word, str) for word in words):
        raise UsageError(f"{source}: give names of checks: {', '.join(known)}")
    found = tuple(word.strip().lower() for word in words if word.strip())
    for word in found:
        if word not in known:
            raise UsageError(f"{source}: there is no check {_shown(word)}; known are {', '.join(known)}")
    return found


def _limits(source: str, value: object) -> tuple[Limit, ...]:
    if not isinstance(value, Mapping):
        raise UsageError(f'{source}: give a table, like {{backward = "30GiB"}}')
    return tuple(limit_of(f"{source}.{str(what)[:60]}", str(what), size) for what, size in value.items())


def _growth(source: str, value: object) -> int:
    if value == 0 and not isinstance(value, bool):
        return 0
    return _size(source, value)


def _number(source: str, value: object, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise UsageError(f"{source} is {_shown(value)}: give a number, at least {least}")
    return value


def _flag(source: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise UsageError(f"{source} is {_shown(value)}: give true or false")
    return value


def _word(source: str, value: object, known: tuple[str, ...]) -> str:
    if value not in known:
        raise UsageError(f"{source} is {_shown(value)}: it takes {', '.join(known)}")
    return str(value)


def _shown(value: object) -> str:
    return repr(str(value)[:60])
