"""What NCCL makes of the text of an environment variable.

Sources: ncclLoadParam in src/misc/param.cc (strtoll with base 0; only a number out of range counts as invalid),
parseStringList and matchIfList in src/misc/utils.cc, parseList in src/graph/tuning.cc, ncclGetLevel in
src/graph/paths.cc, all of NCCL 2.30.7.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from oomph.hardware.nccl import NcclVariable

_NUMBER = re.compile(r"[ \t\n\v\f\r]*([+-]?)(0[xX][0-9a-fA-F]+|[0-9]+)")
_OCTAL = re.compile(r"0[0-7]*")
_LIMIT = 1 << 63
#: No number of 64 bits has more digits.
_LONGEST = 40
#: topoPathTypeStr up to SYS, in src/graph/topo.cc. They are compared in capital letters only.
LEVELS = ("LOC", "NVL", "NVB", "C2C", "PIX", "PXB", "P2C", "PXN", "PHB", "SYS")
#: ncclFuncStr: what NCCL_ALGO and NCCL_PROTO may put before a colon, since 2.24.
FUNCTIONS = ("Broadcast", "Reduce", "AllGather", "ReduceScatter", "AllReduce")


@dataclass(frozen=True)
class Number:
    """`value` is what NCCL takes (None: its default, because the text is empty or too large); `whole` whether that is
    what the text says. `octal`: a leading 0 changed its meaning."""

    value: int | None
    whole: bool
    octal: bool = False


def number(text: str) -> Number:
    """The text as NCCL reads a number: up to the first character that does not belong to it, 0 where there is none;
    0x is hexadecimal, a leading 0 octal."""
    if not text:
        return Number(None, True)
    found = _NUMBER.match(text)
    if found is None:
        return Number(0, False)
    digits = found[2]
    if len(digits) > _LONGEST:
        return Number(None, False)
    octal = len(digits) > 1 and digits[0] == "0" and digits[1] not in "xX"
    if octal:
        kept = _OCTAL.match(digits)
        used = kept[0] if kept else "0"
        value, end = int(used, 8), found.start(2) + len(used)
    else:
        value, end = int(digits, 16 if digits[:2] in ("0x", "0X") else 10), found.end()
    value = -value if found[1] == "-" else value
    if not -_LIMIT <= value < _LIMIT:
        return Number(None, False)
    return Number(value, not text[end:].strip(), octal and value > 7)


@dataclass(frozen=True)
class Names:
    """A list of names of interfaces or devices. `excluded`: those that match are left out (^); `exact`: names are
    compared whole (=), else by their beginning."""

    entries: tuple[str, ...]
    excluded: bool = False
    exact: bool = False

    def takes(self, name: str) -> bool:
        """Whether NCCL would take the interface or device of that name."""
        if not self.entries:
            return True
        hit = any(name == one if self.exact else name.startswith(one) for one in self.entries)
        return hit != self.excluded


def names(text: str) -> Names:
    """A list as in ^docker,lo or =mlx5_0:1,mlx5_3:1. Ports are dropped. Blanks are kept, as NCCL keeps them."""
    excluded = text.startswith("^")
    text = text[1:] if excluded else text
    exact = text.startswith("=")
    text = text[1:] if exact else text
    entries = tuple(one.partition(":")[0] for one in text.split(","))
    return Names(tuple(one for one in entries if one), excluded, exact)


def refused_choice(text: str, variable: NcclVariable) -> str:
    """What NCCL_ALGO or NCCL_PROTO has that NCCL does not know: a sentence's end, "" where all is known.

    "ring,tree", "^LL128", "allreduce:tree,ring;broadcast:ring". Capital letters do not matter, blanks do.
    """
    known = {one.lower() for one in variable.values}
    functions = {one.lower() for one in FUNCTIONS}
    for place, part in enumerate(one for one in text.split(";") if one):
        prefix, colon, rest = part.partition(":")
        if not colon or not rest:
            rest, prefix = prefix, ""
            if place:
                return f'"{part}" has no name of a collective before it, which only the first part may lack'
        if prefix and prefix.lower() not in functions:
            return f'"{prefix}" is no collective (they are {", ".join(FUNCTIONS)})'
        for word in rest.removeprefix("^").split(","):
            if word and word.lower() not in known:
                return f'"{word}" is none of {", ".join(variable.values)}'
    return ""


def is_level(text: str) -> bool:
    """Whether NCCL takes it as a level: a name in capital letters, or an old number."""
    return text in LEVELS or "0" <= text[:1] <= "9"
