"""Models, found by what people call them."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from oomph.errors import InputError, UsageError
from oomph.job import models
from oomph.job.config import from_cache, from_config, from_folder
from oomph.job.model import Model

#: Longer than any name.
_LONGEST = 200
#: Words at the end of a name that tell no size from another: the same tensors, trained further or packed otherwise.
_SAME_TENSORS = frozenset({"instruct", "chat", "it", "hf", "base", "pt"})
#: Accounts that publish others' models under the models' own names, tensors as they are.
_MIRRORS = frozenset({"nousresearch", "unsloth", "huggyllama"})
_WORD = re.compile(r"[a-z]+|[0-9]+(?:\.[0-9]+)*")
_HUB_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(?:/[A-Za-z0-9][A-Za-z0-9._-]*)?\Z")


def model(name_or_path: str, *, network: bool = False) -> Model:
    """The model of that name: a folder or a config.json on this machine, a model that oomph ships the configuration
    of, one in the local cache of the hub, or (with `network`) one on the hub.

    Shipped models are found in any case, without their organisation, and with or without endings such as -Instruct
    and -hf. Raises UsageError with close names for a name that nothing is known of, InputError for a path that holds no
    configuration.
    """
    name = name_or_path.strip()
    if not name:
        raise UsageError(
            "The model has no name: give one as on the hub (meta-llama/Llama-3.1-8B), or a folder."
        )
    if _is_path(name):
        return from_folder(Path(name).expanduser())
    found = shipped(name) or (from_cache(name) if _HUB_NAME.match(name) and "/" in name else None)
    if found is None:
        found = _alike(name)
    if found is None and _HUB_NAME.match(name):
        found = from_cache(name) or (_from_hub(name) if network else None)
    if found is None:
        raise UsageError(_unknown(name))
    return found


def names() -> tuple[str, ...]:
    """The models whose configurations are shipped, as the hub writes them."""
    return models.names()


def close(name: str) -> list[str]:
    """Shipped names that resemble this one, the closest first."""
    from difflib import get_close_matches  # for a mistyped name only

    keys = {"".join(_words(one)): one for one in reversed(models.names())}
    keys |= {"".join(_words(one.rpartition("/")[2])): one for one in reversed(models.names())}
    found = get_close_matches("".join(_words(name[:_LONGEST])), list(keys), n=6, cutoff=0.6)
    found += get_close_matches(
        "".join(_words(name[:_LONGEST].rpartition("/")[2])), list(keys), n=6, cutoff=0.6
    )
    return list(dict.fromkeys(keys[key] for key in found))[:4]


def _is_path(name: str) -> bool:
    """Whether it is a file or a folder with a configuration, or can be nothing else."""
    if name.startswith(("/", "./", "../", "~", ".\\")) or name.endswith(".json"):
        return True
    try:
        return (Path(name) / "config.json").is_file()
    except (OSError, ValueError):
        return False


def shipped(name: str) -> Model | None:
    """The model of exactly this name on the hub (case aside), from what oomph ships; None where it is not there."""
    known = models.find(name)
    return None if known is None else from_config(known.config, known.name)


def _alike(name: str) -> Model | None:
    """A shipped model that is called so without its organisation, its version, or with another ending. Raises
    UsageError where several are that differ in their tensors."""
    if len(name) > _LONGEST:
        return None
    organisation, _, own = name.rpartition("/")
    organisation = organisation.lower()
    if organisation and organisation not in _MIRRORS | _organisations():
        return None
    for key in (_key(own), (*_key(own), "any version")):
        candidates = _by_words().get(key, ())
        if organisation and organisation not in _MIRRORS:
            candidates = tuple(one for one in candidates if one.lower().startswith(f"{organisation}/"))
        words = _words(own)
        exact = next((one for one in candidates if _words(one.rpartition("/")[2]) == words), None)
        if exact is not None:
            return shipped(exact)
        if candidates and not _same_tensors(candidates):
            raise UsageError(f"{name} can be {', '.join(candidates[:-1])} or {candidates[-1]}: say which.")
        if candidates:
            return shipped(candidates[0])
    return None


def _same_tensors(names: tuple[str, ...]) -> bool:
    """Whether all of these shipped models have the same parameters."""
    from oomph.job.families import FAMILIES, architecture

    found = [one for one in map(shipped, names) if one is not None]
    if all(one.family in FAMILIES for one in found):
        return len({architecture(one).parameters for one in found}) == 1
    return len({one.config for one in found}) == 1


@cache
def _organisations() -> frozenset[str]:
    return frozenset(one.partition("/")[0].lower() for one in models.names())


@cache
def _by_words() -> dict[tuple[str, ...], tuple[str, ...]]:
    """Shipped names by the words that tell them apart, and once more without the version at the end (v0.1)."""
    result: dict[tuple[str, ...], tuple[str, ...]] = {}
    for one in models.names():
        if one.count("/") > 1:  # a part of a pipeline, which has no name of its own
            continue
        key = _key(one.rpartition("/")[2])
        for each in (key, *([(*key[:-2], "any version")] if key[-2:-1] == ("v",) else [])):
            result[each] = (*result.get(each, ()), one)
    return result


def _words(name: str) -> tuple[str, ...]:
    return tuple(_WORD.findall(name.lower()))


def _key(name: str) -> tuple[str, ...]:
    """The words of a name without those that tell no model from another."""
    words = [word for word in _words(name) if word not in _SAME_TENSORS]
    if words[:1] == ["meta"]:
        del words[0]
    return tuple(words)


def _from_hub(name: str) -> Model:
    """Asks the hub for the model's config.json."""
    try:
        from huggingface_hub import hf_hub_download
    except ImportError:
        raise UsageError(
            f"{name} is not shipped with oomph; `pip install huggingface_hub` lets it be asked for on the hub, or "
            "give a folder with the model's config.json."
        ) from None
    try:
        path = hf_hub_download(name, "config.json")
    except Exception as error:  # noqa: BLE001 - whatever the client raises: the network's errors are of many kinds
        first = str(error).strip().splitlines() or [type(error).__name__]
        raise InputError(f"The hub gives no config.json of {name}: {first[0]}") from None
    return from_folder(Path(path), name)


def _unknown(name: str) -> str:
    shown = name if len(name) <= _LONGEST else name[:_LONGEST] + "..."
    alike = close(name)
    hint = f" Close to it: {', '.join(alike)}." if alike else ""
    return (
        f"No model {shown!r} is shipped with oomph or in the local cache of the hub.{hint} Give a folder with the "
        "model's config.json (no weights are needed), or its dimensions in the job file."
    )
