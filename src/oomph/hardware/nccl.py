"""The environment variables of NCCL, of its plugins, and of PyTorch's NCCL backend: which there are and what they take.

The table is nccl.json, read when first asked for; it names its sources. A version is a tuple of numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import msgspec

#: Words of names that tell little: they must not make two names alike.
_FEWEST_LETTERS = 4
_NUMBERS = re.compile(r"[0-9]+(?:\.[0-9]+){0,3}")


class NcclVariable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A variable that NCCL reads (or read: `until` is the last release with it, "" for one that is still there).

    `type` is "switch" (0 or 1), "int", "bytes", "text" (any), "word" (one of `values`; `exact`: in that case),
    "words" (a list of them), "level" (a distance in the topology), "algorithms", "protocols", "interfaces" or
    "devices". `low` and `high` bound a number, `multiple` divides it, and `outside` says what NCCL does with another.
    `renamed` is the name that took its place. `default` is "" where NCCL decides by the machine. `effect` is what the
    variable does.
    """

    name: str
    type: str
    since: str
    until: str = ""
    default: str = ""
    low: int | None = None
    high: int | None = None
    multiple: int | None = None
    power_of_two: bool = False
    values: tuple[str, ...] = ()
    exact: bool = False
    outside: str = ""
    renamed: str = ""
    effect: str = ""


class TorchVariable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A TORCH_NCCL_* variable. `type` is "bool", "int" or "text"; `older` the name without TORCH_ that is still read.
    `verified`: name and type were read in PyTorch's headers."""

    name: str
    type: str
    older: str = ""
    effect: str = ""
    verified: bool = False


class Family(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Names that begin so belong to something else than NCCL itself."""

    prefix: str
    of: str


class _Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    as_of: str
    sources: dict[str, str]
    variables: tuple[NcclVariable, ...]
    families: tuple[Family, ...]
    packaging: tuple[str, ...]
    torch: tuple[TorchVariable, ...]


@cache
def _table() -> _Table:
    return msgspec.json.decode(Path(__file__).with_name("nccl.json").read_bytes(), type=_Table)


@cache
def nccl_variables() -> dict[str, NcclVariable]:
    """Every variable of NCCL itself, by name."""
    return {each.name: each for each in _table().variables}


@cache
def torch_variables() -> dict[str, TorchVariable]:
    """Every TORCH_NCCL_* variable by name; the older names that PyTorch still reads lead to the same."""
    found = {each.name: each for each in _table().torch}
    return found | {each.older: each for each in _table().torch if each.older}


def family_of(name: str) -> str:
    """Whose variable it is, where it is known and not NCCL's own ("Google Cloud's FasTrak plugin"); "" elsewhere.
    Variables that only builds and images use (NCCL_VERSION) count as known."""
    if name in _table().packaging:
        return "builds and images"
    return next((each.of for each in _table().families if name.startswith(each.prefix)), "")


def nearest(name: str, known: Iterable[str]) -> str:
    """The known name that is spelled most like it, "" where none is."""
    from difflib import get_close_matches  # for a mistyped name only

    names = list(known)
    found = get_close_matches(name, names, n=1, cutoff=0.86)
    if found:
        return found[0]
    # NCCL_SOCKET_NAME: the words of the name, in another number or order.
    words = {word for word in name.split("_") if len(word) >= _FEWEST_LETTERS or word in ("IB", "P2P", "NET")}
    alike = [one for one in names if len(words) > 2 and words <= set(one.split("_"))]
    return alike[0] if len(alike) == 1 else ""


def version(text: str) -> tuple[int, ...] | None:
    """The numbers of 2.21.5, 2.21.5-1 or 2.21.5+cuda12.4; None for what is no version."""
    found = _NUMBERS.match(text.strip().removeprefix("v"))
    return tuple(int(part) for part in found[0].split(".")) if found else None
