"""GPUs and cloud machines, found by what people call them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache

from oomph.errors import UsageError
from oomph.hardware.gpus import Gpu
from oomph.hardware.tables import Machine, all_gpus, all_machines

#: Words that tell no GPU from another.
_EMPTY_WORDS = frozenset({"gpu", "gpus", "graphics", "card", "generation", "edition"})
_MAKERS = ("nvidia", "geforce", "tesla", "amd", "instinct")
#: What clouds put before the name of a machine.
_CLOUD_PREFIX = re.compile(r"(?:standard_|ml\.)")
_SIZE = re.compile(r"(?<![0-9a-z])([0-9]{1,4}) ?(?:g|gb|gib)(?![0-9a-z])")
#: "8x H100", "8 H100"; and "H100 x8", "h100:8".
_COUNT_FIRST = re.compile(r"([0-9]{1,5})(?: ?[x×*] ?| )(.+)\Z", re.DOTALL)
_COUNT_LAST = re.compile(r"(.+?) ?[x×*:] ?([0-9]{1,5})\Z", re.DOTALL)
_WORD = re.compile(r"[a-z0-9]+")
#: Longer than any name.
_LONGEST = 80
_EXAMPLES = "Names look like a100-80gb, rtx-4090, NVIDIA L40S, or p4d.24xlarge for a cloud machine."


@dataclass(frozen=True)
class Asked:
    """What a name stands for: a GPU, how many of them (None: it does not say), and the machine type that was named."""

    gpu: Gpu
    count: int | None = None
    machine: Machine | None = None


def asked(name: str) -> Asked:
    """As `gpu`, with how many: "8x H100", "a100-80gb x16", "h100:8", and the number that a machine type has
    ("p4d.24xlarge", or twice that: "p4d.24xlarge x2").

    Raises UsageError as `gpu` does, and for a count of 0.
    """
    text = name.strip().lower()[: _LONGEST + 1]
    if not _is_known(text):
        for pattern, inner, number in ((_COUNT_FIRST, 2, 1), (_COUNT_LAST, 1, 2)):
            split = pattern.match(text)
            if split and _is_known(split[inner]):
                return _times(asked(split[inner]), int(split[number]), name)
    found = gpu(name)
    its = None if _gpus_named(name) else machine_type(name)
    return Asked(found, its.count if its else None, its)


def _times(each: Asked, times: int, name: str) -> Asked:
    if times == 0:
        raise UsageError(f"{_shown(name)}: a job runs on one GPU at least.")
    return replace(each, count=times * (each.count or 1))


def _is_known(text: str) -> bool:
    """Whether it is the name of a GPU, of several, of one with another size, or of a machine."""
    return bool(_gpus_named(text) or _machine_key(text) in _machines() or _of_other_size(text)[1])


def gpu(name: str) -> Gpu:
    """The GPU of that name: as a shop, nvidia-smi or PyTorch prints it, short (a100-40gb, 4090), or the name of a cloud
    machine that has it. Case and separators do not matter.

    Raises UsageError, with the names to choose from, for a name that several GPUs have (a100) or none.
    """
    found = _gpus_named(name)
    if len(found) == 1:
        return found[0]
    if found:
        names = _listed([each.short_name for each in found])
        raise UsageError(f"{_shown(name)} can be {names}: say which.")
    if _machine_key(name) in _machines():
        return machine(name)[0]
    _refuse_size(name)
    longer = _machines_that_begin_so(name)
    raise UsageError(_unknown("GPU", name, longer or _gpu_suggestions(name) or _machine_suggestions(name)))


def machine(name: str) -> tuple[Gpu, int]:
    """The GPU of a cloud machine type (a2-highgpu-8g, p4d.24xlarge, Standard_ND96asr_v4), and how many it has.

    Raises UsageError for a name that is not known, and for a machine that has only a part of a GPU.
    """
    found = machine_type(name)
    its = gpu(found.gpu)
    if found.count == 0:
        raise UsageError(
            f"{found.name} has a part of one {its.name} ({found.slice_mib} MiB), "
            f"and what CUDA shows of it is not known: name the GPU ({its.short_name}) "
            "and give the memory that PyTorch can have."
        )
    return its, found.count


def machine_type(name: str) -> Machine:
    """The machine type of that name, with its RAM and network. Raises UsageError for a name that is not known."""
    found = _machines().get(_machine_key(name))
    if found is None:
        raise UsageError(_unknown("cloud machine", name, _machine_suggestions(name)))
    return found


def _gpus_named(name: str) -> tuple[Gpu, ...]:
    """The GPUs of that name; with a size in it, those of that size."""
    if len(name) > _LONGEST:
        return ()
    named = _names().get(_key(name), ())
    if named:
        return named
    _, alike, size = _of_other_size(name)
    return tuple(each for each in alike if each.memory_gb == size)


def _of_other_size(name: str) -> tuple[str, tuple[Gpu, ...], int]:
    """The name without the size in it, the GPUs of that name, and the size in GB."""
    text = name.strip().lower()
    sized = _SIZE.search(text) if len(name) <= _LONGEST else None
    if sized is None:
        return text, (), 0
    rest = " ".join(f"{text[: sized.start()]} {text[sized.end() :]}".split()).strip(" _-(),")
    return rest, _names().get(_key(rest), ()), int(sized[1])


def _refuse_size(name: str) -> None:
    """Raises UsageError when only the size of the memory is wrong."""
    rest, known, size = _of_other_size(name)
    if known:
        sizes = _listed(dict.fromkeys(f"{each.memory_gb} GB" for each in known))
        choices = _listed(each.short_name for each in known)
        raise UsageError(f"{_shown(rest)} is known with {sizes}, not with {size}: say {choices}.")


@cache
def _names() -> Mapping[str, tuple[Gpu, ...]]:
    """Every name, reduced to what `_key` leaves of it, with the GPUs that have it."""
    result: dict[str, tuple[Gpu, ...]] = {}
    for each in all_gpus():
        for key in dict.fromkeys(_key(name) for name in (each.name, *each.aliases)):
            result[key] = (*result.get(key, ()), each)
    return result


@cache
def _machines() -> Mapping[str, Machine]:
    return {_machine_key(each.name): each for each in all_machines()}


def _key(name: str) -> str:
    """A name without case, separators, makers and words that say nothing."""
    words = [word for word in _WORD.findall(name.lower()) if word not in _EMPTY_WORDS]
    joined = "".join(words)
    while maker := next((maker for maker in _MAKERS if joined.startswith(maker)), ""):
        joined = joined[len(maker) :]
    return joined


def _machine_key(name: str) -> str:
    if len(name) > _LONGEST:
        return ""
    return "".join(_WORD.findall(_CLOUD_PREFIX.sub("", name.strip().lower(), count=1)))


def _gpu_suggestions(name: str) -> list[str]:
    """Short names of GPUs that have all of the words, else of those whose name is spelled alike."""
    if len(name) > _LONGEST:
        return []
    words = set(_WORD.findall(name.lower())) - _EMPTY_WORDS - set(_MAKERS)
    alike = [
        each.short_name
        for each in all_gpus()
        if words and any(words <= set(_WORD.findall(known.lower())) for known in (each.name, *each.aliases))
    ]
    if not alike:
        close = _close(_key(name), _names())
        alike = [each.short_name for key in close for each in _names()[key]]
    return list(dict.fromkeys(alike))[:4]


def _machines_that_begin_so(name: str) -> list[str]:
    """The machines of which the name is the first part (dgx-a100), if it is not one of very many."""
    key = _machine_key(name)
    found = [each.name for known, each in _machines().items() if len(key) > 3 and known.startswith(key)]
    return found if len(found) < 5 else []


def _machine_suggestions(name: str) -> list[str]:
    return [_machines()[key].name for key in _close(_machine_key(name), _machines())]


def _close(key: str, known: Iterable[str]) -> list[str]:
    from difflib import get_close_matches  # for a mistyped name only

    return get_close_matches(key, list(known), n=3, cutoff=0.7) if key else []


def _unknown(what: str, name: str, suggestions: list[str]) -> str:
    hint = f"Did you mean {_listed(suggestions)}?" if suggestions else _EXAMPLES
    return f"No {what} is known by the name {_shown(name)}. {hint}"


def _shown(name: str) -> str:
    """The name as it was given, cut to a line's length, without what would upset a terminal."""
    text = "".join(letter if letter.isprintable() else "?" for letter in name.strip()[: _LONGEST + 1])
    text = text if len(text) <= _LONGEST else text[:_LONGEST] + "..."
    return text or "''"


def _listed(names: Iterable[str]) -> str:
    """`a, b or c`."""
    *first, last = names
    return f"{', '.join(first)} or {last}" if first else last
