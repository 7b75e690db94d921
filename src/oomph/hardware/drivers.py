"""Which driver runs which CUDA build of PyTorch, on which GPU, and what the driver's Xid numbers mean.

The table is drivers.json; every row names its source there, and `checked` is False where it was not looked up. It is
read when first asked for. Versions are text as they are printed; `numbers` makes them comparable.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import NamedTuple

import msgspec

_NUMBERS = re.compile(r"(?<![\w.])\d{1,9}(?:\.\d{1,9}){0,5}")
_ARCHITECTURE = re.compile(r"(sm|compute)_(\d{2,3})([af]?)\Z")


class Family(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The oldest driver that runs all builds of one CUDA major version (minor-version compatibility)."""

    major: int
    linux: str
    windows: str
    source: str


class Toolkit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A CUDA toolkit and the Linux driver that it is shipped with."""

    cuda: str
    driver: str
    source: str


class Branch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A driver branch (535) and the newest CUDA that it knows, which nvidia-smi prints as "CUDA Version"."""

    branch: int
    cuda: str
    source: str


class TorchRelease(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A release on PyPI (Linux, x86_64): the CUDA it is built with, and the cuDNN and NCCL that its metadata pins.
    `nccl` is "" where NCCL is inside the wheel."""

    version: str
    cuda: str
    cudnn: str
    nccl: str
    source: str


class TorchArchitectures(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the wheels of one PyTorch minor version and one CUDA have code for (Linux, x86_64; those of Windows have
    the same and at times more). `cudnn` is the version that the build brings or pins, "" where it is not known."""

    torch: str
    cuda: str
    cudnn: str
    architectures: tuple[str, ...]
    source: str
    checked: bool


class CardFamily(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Cards by a pattern of their lower-case name, for those that gpus.json does not have."""

    pattern: str
    capability: str
    source: str


class XidMeaning(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What an Xid of the kernel log means. `blame` is "application", "card", "link", "driver", "follows" (another Xid
    or a signal is the cause) or "note"; `severity` is error, warning or note."""

    number: int
    name: str
    blame: str
    severity: str
    means: str
    do: str


class Forward(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The package that lets an older driver run a newer CUDA major version, and the kinds of cards it works on."""

    package: str
    kinds: tuple[str, ...]
    also: str
    source: str


class _Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    as_of: str
    sources: dict[str, str]
    families: tuple[Family, ...]
    toolkits: tuple[Toolkit, ...]
    branches: tuple[Branch, ...]
    torch: tuple[TorchRelease, ...]
    builds: tuple[TorchArchitectures, ...]
    cards: tuple[CardFamily, ...]
    xids: tuple[XidMeaning, ...]
    forward: Forward


class Minimum(NamedTuple):
    """The oldest driver for a CUDA version, and by which rule: "minor-version compatibility", or "its own driver"
    where that is older, or there is no such rule (before CUDA 11)."""

    driver: str
    rule: str


@cache
def table() -> _Table:
    """Everything in drivers.json."""
    return msgspec.json.decode(Path(__file__).with_name("drivers.json").read_bytes(), type=_Table)


def numbers(version: str) -> tuple[int, ...]:
    """The first version number in a text: "535.104.05" is (535, 104, 5); () where there is none. What hangs on a
    word (x86_64) is no version."""
    match = _NUMBERS.search(version)
    return tuple(int(part) for part in match[0].split(".")) if match else ()


def at_least(version: str, minimum: str) -> bool:
    """Whether a version is the minimum or newer; a missing part counts as 0."""
    one, other = numbers(version), numbers(minimum)
    width = max(len(one), len(other))
    return one + (0,) * (width - len(one)) >= other + (0,) * (width - len(other))


def minimum_driver(cuda: str, *, windows: bool = False) -> Minimum | None:
    """The oldest driver that runs a build with this CUDA ("12.1"); None where the table does not say.

    From CUDA 11 on the driver need not know the minor version of the build. On Linux, the driver that a toolkit was
    shipped with runs it too, where it is older than the rule's (11.0). `windows` asks for Windows' numbers, which WSL
    shows as well.
    """
    asked = numbers(cuda)[:2]
    if not asked:
        return None
    family = next((one for one in table().families if one.major == asked[0]), None)
    own = [one.driver for one in table().toolkits if numbers(one.cuda)[: len(asked)] == asked]
    oldest = min(own, key=numbers, default=None) if not windows else None
    if family is None:
        return Minimum(oldest, "its own driver") if oldest is not None and asked[0] < 11 else None
    rule = family.windows if windows else family.linux
    if oldest is not None and not at_least(oldest, rule):
        return Minimum(oldest, "its own driver")
    return Minimum(rule, "minor-version compatibility")


def newest_cuda(driver: str) -> str:
    """The newest CUDA that a driver's branch knows: at least that, where the branch is newer than the table; "" where
    it is older. The branch's number is the same for Windows (537.58 is of 535)."""
    major = numbers(driver)[:1]
    known = [one for one in table().branches if major and one.branch <= major[0]]
    return known[-1].cuda if known else ""


def torch_release(version: str) -> TorchRelease | None:
    """The release of exactly that version."""
    return next((one for one in table().torch if numbers(one.version) == numbers(version)), None)


def default_cuda(version: str) -> str:
    """The CUDA of the build that PyPI has for Linux on x86_64; "" where the table does not have that minor version."""
    minor = numbers(version)[:2]
    found = [one.cuda for one in table().torch if numbers(one.version)[:2] == minor]
    return found[-1] if len(minor) == 2 and found else ""


def torch_architectures(version: str, cuda: str) -> TorchArchitectures | None:
    """What the official wheel of that PyTorch and that CUDA has code for."""
    for one in table().builds:
        if numbers(one.torch) == numbers(version)[:2] and numbers(one.cuda) == numbers(cuda)[:2]:
            return one
    return None


def builds_with(capability: tuple[int, int]) -> tuple[TorchArchitectures, ...]:
    """The official builds that have machine code for a card, oldest first."""
    return tuple(one for one in table().builds if code_for(one.architectures, capability) == "binary")


def code_for(architectures: Iterable[str], capability: tuple[int, int]) -> str:
    """How a card of that compute capability runs a build: "binary", "ptx" (the driver compiles what it needs, when it
    first needs it) or "" (not at all).

    Source: CUDA programming guide, binary and PTX compatibility: machine code runs on the same major version and an
    equal or higher minor one; PTX on every equal or higher version; what ends in "a" on exactly its own, and what ends
    in "f" on its own major version from its minor one on.
    """
    by_ptx = False
    for word in architectures:
        match = _ARCHITECTURE.match(word)
        if match is None:
            continue
        built = (int(match[2][:-1]), int(match[2][-1]))
        if match[3] == "a":
            fits = built == capability
        elif match[3] == "f" or match[1] == "sm":
            fits = built[0] == capability[0] and built[1] <= capability[1]
        else:
            fits = built <= capability
        if fits and match[1] == "sm":
            return "binary"
        by_ptx = by_ptx or fits
    return "ptx" if by_ptx else ""


def family_capability(name: str) -> tuple[int, int] | None:
    """The compute capability of a card by the family that its name tells; None where it tells none."""
    text = name.lower()[:120]
    for one in table().cards:
        if re.search(one.pattern, text):
            major, minor = one.capability.split(".")
            return int(major), int(minor)
    return None


def xid(number: int) -> XidMeaning | None:
    """What the Xid means; None for those that the table does not have."""
    return next((one for one in table().xids if one.number == number), None)
