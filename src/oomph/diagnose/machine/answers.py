"""Several things of one kind were looked at: the one answer that they make together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from oomph.diagnose.machine.model import Answer, Clear, CouldNotTell, NotHere, Problem


def answer(problems: Iterable[Problem], clear: Sequence[str] = (), untold: Sequence[str] = ()) -> Answer:
    """Problems before all else; "clear" says what it could not see; nothing looked at is "not here"."""
    found = tuple(problems)
    if found:
        return found
    if clear:
        rest = f" (could not tell: {'; '.join(dict.fromkeys(untold))})" if untold else ""
        return Clear("; ".join(dict.fromkeys(clear)) + rest)
    if untold:
        return CouldNotTell("; ".join(dict.fromkeys(untold)))
    return NotHere()


def listed(words: Iterable[str], last: str = "and") -> str:
    """`a, b and c`."""
    found = list(dict.fromkeys(words))
    if len(found) < 2:
        return "".join(found)
    return f"{', '.join(found[:-1])} {last} {found[-1]}"


def counted(number: int, one: str, many: str = "") -> str:
    """`1 process`, `3 processes`."""
    return f"{number} {one if number == 1 else many or one + 's'}"
