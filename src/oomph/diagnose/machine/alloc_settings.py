"""Which allocator settings PyTorch reads, and what it makes of them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches

from oomph.diagnose.machine.settings import in_effect, torch_version
from oomph.evidence.environment.model import Environment, Variable
from oomph.hardware.alloc_conf import GENERIC_SINCE, alloc_options
from oomph.memory.allocator.errors import SettingsError
from oomph.memory.allocator.settings import AllocatorSettings

CUDA_NAME = "PYTORCH_CUDA_ALLOC_CONF"
GENERIC_NAME = "PYTORCH_ALLOC_CONF"
NAMES = (CUDA_NAME, GENERIC_NAME)
#: One of each rule that the parser knows: 2.1 and 2.4 are strict, 2.10 split the reading in two.
_VERSIONS = ((2, 1), (2, 4), (2, 6), (2, 9), (2, 10), (2, 13), (2, 14))
_ASSIGNMENT = re.compile(r"(?<=[a-z])\s*=\s*")
_TRUTH = re.compile(r"(?<=:)(true|false|1|0|yes|no|on|off)(?=[,\s]|\Z)", re.IGNORECASE)
#: A blank where a comma belongs: before the next option.
_BLANK = re.compile(r"\s*,?\s+(?=[a-z_]{4,60}\s*[:=])")
#: A share that was written in percent.
_PERCENT = re.compile(r"[1-9][0-9]")
_YES = frozenset(("true", "1", "yes", "on"))


@dataclass(frozen=True)
class Read:
    """The variable that PyTorch reads. `hidden` are others that it then does not look at. `torch` is the version that
    decides, None where it is not told."""

    variable: Variable
    torch: tuple[int, int] | None
    hidden: tuple[Variable, ...] = ()


def read_by_torch(environment: Environment) -> Read | None:
    """What PyTorch reads of allocator settings; None where none are set.

    With both names set PyTorch reads PYTORCH_CUDA_ALLOC_CONF (run on 2.13; 2.14.1's CUDAAllocatorConfig.h does the
    same), although a comment in its header says the opposite. Before 2.9 it knows that name only.
    """
    torch = torch_version(environment)
    found: dict[str, Variable] = {}
    for one in in_effect(environment, "PYTORCH_"):
        if one.name in NAMES:
            found.setdefault(one.name, one)
    own, generic = found.get(CUDA_NAME), found.get(GENERIC_NAME)
    if own is not None:
        return Read(own, torch, (generic,) if generic is not None else ())
    if generic is None or (torch is not None and torch < GENERIC_SINCE):
        return None
    return Read(generic, torch)


def refusals(text: str, torch: tuple[int, int] | None) -> dict[tuple[int, int], str]:
    """For the version, or for one of each set of rules: PyTorch's reason to refuse the text, "" where it takes it."""
    result = {}
    for each in (torch,) if torch is not None else _VERSIONS:
        try:
            AllocatorSettings.parse(text, each)
            result[each] = ""
        except (SettingsError, ValueError) as error:  # ValueError: a number of thousands of digits
            result[each] = str(error)
    return result


def parsed(text: str, torch: tuple[int, int] | None) -> AllocatorSettings | None:
    """The settings; None where PyTorch refuses the text."""
    try:
        return AllocatorSettings.parse(text, torch or (2, 13))
    except (SettingsError, ValueError):
        return None


def options_of(text: str) -> dict[str, str]:
    """The options of a text that PyTorch takes, with their values as written."""
    flat = re.sub(
        r"\[[^\]]*\]", lambda match: match[0].replace(",", ";").replace(":", "="), "".join(text.split())
    )
    pairs = (part.partition(":") for part in flat.split(",") if part)
    return {key: value for key, _, value in pairs}


def corrected(text: str, torch: tuple[int, int] | None) -> str:
    """The text as it was probably meant, where PyTorch takes that; "" where nothing was found."""
    fixed = _BLANK.sub(",", text.strip().strip("\"'").replace(";", ","))
    fixed = _ASSIGNMENT.sub(":", fixed)
    fixed = re.sub(r"\s+", "", fixed).strip(",")
    fixed = _TRUTH.sub(lambda match: "True" if match[1].lower() in _YES else "False", fixed)
    parts = []
    for part in fixed.split(","):
        key, colon, value = part.partition(":")
        if (
            colon
            and key
            and key not in alloc_options()
            and not part.startswith(("[", ">"))
            and not key[0].isdigit()
        ):
            near = get_close_matches(key.lower(), list(alloc_options()), n=1, cutoff=0.75)
            key = near[0] if near else key
        if key == "max_split_size_mb" and value.isdigit() and int(value) <= 20:
            value = "21"  # 2.10 on takes 20, versions before do not
        if key == "garbage_collection_threshold" and _PERCENT.fullmatch(value):
            value = f"{int(value) / 100:g}"
        parts.append(f"{key}{colon}{value}")
    fixed = ",".join(parts)
    answers = refusals(fixed, torch)
    return fixed if fixed and not any(answers.values()) else ""
