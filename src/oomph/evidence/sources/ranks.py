"""Which rank wrote a file, as far as the place of the file among its siblings proves it.

Sources: torch/distributed/elastic/multiprocessing/api.py (`<log_dir>/<run>/attempt_<k>/<local rank>/stdout.log`),
torch.distributed.run before 1.9 (the same without the attempt). A number in a file's name counts only beside the word
"rank" or a role's name, and only when several siblings differ in nothing else.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath

_ATTEMPT = re.compile(r"attempt_(\d{1,4})\Z")
_NUMBER = re.compile(r"\d{1,6}\Z")
_TORCHRUN_FILES = frozenset({"stdout.log", "stderr.log", "error.json"})
_RANK_NAME = re.compile(r"(?<![a-z])rank[-_. =]?(\d{1,6})(?!\d)", re.IGNORECASE)
_ROLE_NAME = re.compile(r"(?<![a-z])(?:worker|proc|process)[-_.]?(\d{1,6})(?![\da-f])", re.IGNORECASE)
#: Where one of these stands beside the workers, worker 0 is not rank 0.
_OTHER_ROLE = re.compile(r"(?<![a-z])(?:master|chief|head|launcher|driver)(?![a-z])", re.IGNORECASE)
_DIGITS = re.compile(r"\d+")
#: Of a run directory, which names global ranks.
_RUN_FILE = re.compile(
    r"(?:^|/)(?:ranks/rank-(\d{5,7})(?:-before|-last)?\.(?:out|err)|oom/rank-(\d{5,7})/[^/]{1,200})\Z",
    re.ASCII,
)
_LINE_RANK = re.compile(r"^\[rank ?(\d{1,6})\]:", re.MULTILINE)

#: Behind a timestamp, a level and a logger's name, or between brackets. The literal comes first: it is found fast.
_SAID_RANK = re.compile(r"rank[ =:]{1,2}(\d{1,6})(?=[\]\s:,|]|$)", re.MULTILINE)
_NO_RANK_BEFORE = ("local ", "lora ", "Lora ", "LoRA ", "LORA ")


@dataclass(frozen=True)
class Place:
    """Global rank and restart attempt, None where the layout does not say."""

    rank: int | None = None
    attempt: int | None = None


@dataclass(frozen=True)
class _Torchrun:
    """A file of a torchrun log tree: `tree` is the part of the path above the attempt."""

    tree: str
    attempt: int | None
    local_rank: int


def line_rank(texts: Sequence[str]) -> int | None:
    """The rank that a file's own "[rank3]:" prefixes name; None without them, or when they name several."""
    ranks: set[str] = set()
    for text in texts:
        if "[rank" in text:
            ranks.update(_LINE_RANK.findall(text))
            if len(ranks) > 1:
                return None
    return int(ranks.pop()) if ranks else None


def said_ranks(texts: Sequence[Sequence[str]]) -> dict[int, int]:
    """By index, the rank that a file's own lines name in passing ("[rank 6] start", "INFO: rank 6 ready").

    Words are weaker than prefixes: they count only when every line of a file that names a rank names the same one, and
    when the files of the input differ in it (a LoRA rank, or rank 0's chatter in a shared file, do not).
    """
    found: dict[int, int] = {}
    if len(texts) < 2:
        return found
    for index, regions in enumerate(texts):
        ranks: set[str] = set()
        for text in regions:
            for match in _SAID_RANK.finditer(text):
                at = match.start()
                if (at and text[at - 1] not in "[ \t\n\r:,|") or text[max(0, at - 6) : at].endswith(
                    _NO_RANK_BEFORE
                ):
                    continue
                ranks.add(match[1])
                if len(ranks) > 1:
                    break
            if len(ranks) > 1:
                break
        if len(ranks) == 1:
            found[index] = int(ranks.pop())
    return found if len(set(found.values())) > 1 else {}


def place_files(names: Sequence[str], own_ranks: Mapping[int, int]) -> list[Place]:
    """The place of each file of `names`. `own_ranks` has, by index, the ranks that files state themselves."""
    torchrun = [_torchrun(name) for name in names]
    offsets, sure = _tree_offsets(torchrun, own_ranks)
    numbered = _numbered(names, {i for i, found in enumerate(torchrun) if found is None})
    places: list[Place] = []
    for index, found in enumerate(torchrun):
        own = own_ranks.get(index)
        recorded = _RUN_FILE.search(names[index].replace("\\", "/"))
        if recorded is not None:
            places.append(Place(int(recorded[1] or recorded[2])))
            continue
        if found is None:
            places.append(Place(own if own is not None else numbered.get(index)))
            continue
        offset = offsets.get(found.tree)
        rank = own
        if rank is None and offset is not None:
            rank = found.local_rank + offset
        if rank is None and sure:
            rank = found.local_rank
        places.append(Place(rank, found.attempt))
    return places


def _torchrun(name: str) -> _Torchrun | None:
    parts = PurePath(name.replace("\\", "/")).parts
    if len(parts) < 2 or not _NUMBER.match(parts[-2]):
        return None
    attempt = _ATTEMPT.match(parts[-3]) if len(parts) > 2 else None
    if attempt is None and parts[-1] not in _TORCHRUN_FILES:
        return None
    tree = "/".join(parts[:-3] if attempt else parts[:-2])
    return _Torchrun(tree, int(attempt[1]) if attempt else None, int(parts[-2]))


def _tree_offsets(
    torchrun: Sequence[_Torchrun | None], own_ranks: Mapping[int, int]
) -> tuple[dict[str, int], bool]:
    """For each tree, global minus local rank where its files show it; and whether a tree that does not show it may
    be taken for the only node: where several trees have the same local ranks, each may be another node's."""
    seen: dict[str, set[int]] = defaultdict(set)
    locals_of: dict[str, set[int]] = defaultdict(set)
    for index, found in enumerate(torchrun):
        if found is None:
            continue
        locals_of[found.tree].add(found.local_rank)
        if index in own_ranks:
            seen[found.tree].add(own_ranks[index] - found.local_rank)
    offsets = {tree: differences.pop() for tree, differences in seen.items() if len(differences) == 1}
    counts = Counter(rank for ranks in locals_of.values() for rank in ranks)
    return offsets, all(count == 1 for count in counts.values())


def _numbered(names: Sequence[str], indexes: set[int]) -> dict[int, int]:
    """Ranks from names: the files that differ only in one number beside "rank" (or a role) are one job's ranks."""
    groups: dict[str, dict[int, list[int]]] = {}
    by_role: set[str] = set()
    others = any(_OTHER_ROLE.search(PurePath(names[index]).name) for index in indexes)
    for index in indexes:
        name = names[index].replace("\\", "/")
        match = _last(_RANK_NAME, name)
        role = match is None
        if match is None:
            match = None if others else _last(_ROLE_NAME, name)
        if match is None:
            continue
        key = _without_extension(name[: match.start(1)] + "#" + name[match.end(1) :])
        groups.setdefault(key, {}).setdefault(int(match[1]), []).append(index)
        if role:
            by_role.add(key)
    groups = {
        key: members
        for key, members in groups.items()
        if len(members) > 1 and not (key in by_role and 0 not in members)
    }
    local = _local_numbers(groups)
    return {
        index: rank
        for key, members in groups.items()
        if key not in local
        for rank, found in members.items()
        for index in found
    }


def _local_numbers(groups: Mapping[str, Mapping[int, Sequence[int]]]) -> set[str]:
    """The groups whose numbers may be local ranks: node0_rank3 and node1_rank3, or a/rank_3 and b/rank_3."""
    families: dict[str, list[str]] = defaultdict(list)
    for key in groups:
        families[_DIGITS.sub("0", key)].append(key)
        families["*/" + PurePath(key).name].append(key)
    local: set[str] = set()
    for keys in families.values():
        counts = Counter(rank for key in set(keys) for rank in groups[key])
        if any(count > 1 for count in counts.values()):
            local.update(keys)
    return local


def _last(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    found = None
    for match in pattern.finditer(text):
        found = match
    return found


def _without_extension(name: str) -> str:
    """rank_0.out and rank_0.err are two files of one rank."""
    stem, dot, extension = name.rpartition(".")
    return (
        stem
        if dot and extension.lower() in {"out", "err", "log", "txt", "stdout", "stderr", "gz", "zst"}
        else name
    )
