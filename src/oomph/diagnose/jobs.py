"""Whether inputs are of one job: by what they say of it, by their names, by the devices that failed.

Files of one job are explained together, and a fact of one is true of all. Files of several jobs are compared, or
explained one at a time: what one says is no fact about the other.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from oomph.diagnose.clock import time_of
from oomph.diagnose.model import Diagnosis
from oomph.evidence.model import Evidence, Position
from oomph.units import format_bytes

#: Two ranks of a job fail within so many seconds; dates before this one are times of day.
_SECONDS_APART = 60
_FIRST_DATE = 1_000_000_000.0
#: Numbers below this one count ranks and nodes; larger ones are ids of jobs.
_MOST_RANKS = 10_000
#: What is printed of one card, or of one model, in different ways differs by no more than this share.
_TOLERANCE = 0.05

#: Facts that are the same in all files of one job: name -> how people call it.
_IDENTITY = {
    "torch_version": "PyTorch",
    "world_size": "world size",
    "zero_stage": "ZeRO stage",
    "total_params": "parameters",
    "capacity": "card capacity",
}
#: Settings that two ranks of one job share.
_SETTINGS = (
    "batch_size",
    "accumulation",
    "sequence_length",
    "optimizer",
    "checkpointing",
    "dtype",
    "lora_rank",
)

#: How the job itself is described, which must not be carried from one job to another. How it went on (progress,
#: success, phases) belongs to its own file anyway.
_KEPT_OF_OTHERS = frozenset(("progress", "success", "phase_line", "rank_pid", "first_step"))

_NUMBER = re.compile(r"[0-9]{1,9}")
_RANK_WORD = re.compile(r"(?i)(?:rank|worker|node|host|task|proc(?:ess)?|gpu|device)[-_.:]?\Z")
_RUN_WORD = re.compile(r"(?i)(?:run|job|exp|experiment|trial|attempt|version|try|slurm|epoch|[0-9])[-_.]?\Z")
_ENDING = re.compile(r"(?:\.[A-Za-z]{1,5}){0,3}\Z")

Values = Mapping[str, frozenset[str]]


def are_two_runs(a: Diagnosis, b: Diagnosis) -> bool:
    """True when two inputs look like two runs rather than two ranks, or the two streams, of one run.

    Both must have failed on their own. What they say of the job decides, then their names and devices, then whether
    the failures are one.
    """
    if a.incident is None or b.incident is None:
        return False
    first, second = _identity(a.evidence), _identity(b.evidence)
    named_ranks = _are_siblings(_name(a), _name(b), _RANK_WORD)
    if _conflict(first, second, _IDENTITY if not named_ranks else _without_size()):
        return True
    if _are_different_ranks(a, b) or named_ranks:
        return False
    if not _conflict(_settings(a.evidence), _settings(b.evidence), _SETTINGS):
        devices = {a.incident.failure.device, b.incident.failure.device}
        if len(devices) == 2 and None not in devices:
            return False
        if _are_siblings(_name(a), _name(b), None) or _are_close(a, b):
            return False
    one, other = a.incident.failure, b.incident.failure
    return not (one.numbers and one.numbers == other.numbers and one.quote.text == other.quote.text)


def several_jobs(evidence: Evidence, document: int) -> str:
    """A phrase that says in what the input's files differ from file `document`, which cannot be if all are of one
    job; "" when nothing does."""
    mine = _identity(evidence, document)
    for index in range(len(evidence.documents)):
        other = _identity(evidence, index)
        name = _conflict(mine, other, _names_of(evidence, document, index))
        if name:
            here, there = _shown(name, mine[name]), _shown(name, other[name])
            source = evidence.documents[index].source
            return (
                f"{_IDENTITY[name]} is {here} in {evidence.documents[document].source}, {there} in {source}"
            )
    return ""


def of_one_job(evidence: Evidence, document: int) -> Evidence:
    """The evidence without what other files than `document` say of their job, and without the measurements of files
    that cannot be of its job."""
    mine = _identity(evidence, document)
    foreign = {
        index
        for index in range(len(evidence.documents))
        if index != document
        and _conflict(mine, _identity(evidence, index), _names_of(evidence, document, index))
    }
    sources = {evidence.documents[index].source for index in foreign}
    return replace(
        evidence,
        facts=tuple(
            fact
            for fact in evidence.facts
            if fact.position.document == document or fact.name in _KEPT_OF_OTHERS
        ),
        samples=tuple(one for one in evidence.samples if one.position.document not in foreign),
        gpus=tuple(one for one in evidence.gpus if one.position.document not in foreign),
        gpu_processes=tuple(one for one in evidence.gpu_processes if one.quote.source not in sources),
        tables=tuple(one for one in evidence.tables if one.position.document not in foreign),
    )


# -- what an input says of its job ------------------------------------------------------------------------------------


def _identity(evidence: Evidence, document: int | None = None) -> Values:
    """The values of `_IDENTITY` that the input, or one file of it, shows."""
    values = _values(evidence, tuple(_IDENTITY), document)
    known = evidence.derived(_Capacities).by_document
    shown = known.values() if document is None else [known.get(document, set())]
    return {**values, "capacity": frozenset(size for sizes in shown for size in sizes)}


class _Capacities:
    """The capacities that the failures of each document print."""

    def __init__(self, evidence: Evidence) -> None:
        self.by_document: dict[int, set[str]] = {}
        for failure in evidence.failures:
            if "capacity_bytes" in failure.numbers:
                size = str(failure.numbers["capacity_bytes"].bytes)
                self.by_document.setdefault(failure.position.document, set()).add(size)


def _settings(evidence: Evidence) -> Values:
    return _values(evidence, _SETTINGS, None)


def _values(evidence: Evidence, names: Sequence[str], document: int | None) -> dict[str, frozenset[str]]:
    return {
        name: frozenset(
            fact.value
            for fact in (
                evidence.facts_named(name) if document is None else evidence.facts_in(document, name)
            )
        )
        for name in names
    }


def _without_size() -> tuple[str, ...]:
    """Ranks of a pipeline hold parts of a model, which differ in size."""
    return tuple(name for name in _IDENTITY if name != "total_params")


def _names_of(evidence: Evidence, a: int, b: int) -> Sequence[str]:
    """What two files of one job have in common. Two ranks of it may hold parts of the model, on different cards."""
    left, right = evidence.documents[a].rank, evidence.documents[b].rank
    if left is not None and right is not None and left != right:
        return tuple(name for name in _without_size() if name != "capacity")
    return tuple(_IDENTITY)


def _conflict(a: Values, b: Values, names: Sequence[str] | Mapping[str, str]) -> str:
    """The first of `names` of which both show values, and none in common; "" for none."""
    for name in names:
        same = _SAME.get(name, str.__eq__)
        if a[name] and b[name] and not any(same(left, right) for left in a[name] for right in b[name]):
            return name
    return ""


def _same_version(a: str, b: str) -> bool:
    """2.11 and 2.11.0+cu130 are one version, as far as both are known."""
    left, right = a.partition("+")[0].split("."), b.partition("+")[0].split(".")
    return all(one == other for one, other in zip(left, right, strict=False))


def _about_same(a: str, b: str) -> bool:
    try:
        left, right = float(a), float(b)
    except ValueError:
        return a == b
    return abs(left - right) <= _TOLERANCE * max(left, right)


_SAME: Mapping[str, Callable[[str, str], bool]] = {
    "torch_version": _same_version,
    "total_params": _about_same,
    "capacity": _about_same,
}


def _shown(name: str, values: frozenset[str]) -> str:
    value = min(values)
    if name == "capacity":
        return format_bytes(int(value))
    return f"{int(value):,}" if value.isdecimal() and value.isascii() and len(value) < 20 else value


# -- names, devices, times --------------------------------------------------------------------------------------------


def _name(one: Diagnosis) -> str:
    documents = one.evidence.documents
    return documents[0].source.replace("\\", "/") if len(documents) == 1 else ""


@lru_cache(maxsize=8)
def _are_siblings(a: str, b: str, word: re.Pattern[str] | None) -> bool:
    """Whether two names differ in one number only: beside `word`, or for None at the end of the name and not beside
    a word that counts runs."""
    left, right = list(_NUMBER.finditer(a)), list(_NUMBER.finditer(b))
    if a == b or len(left) != len(right) or _NUMBER.sub("#", a) != _NUMBER.sub("#", b):
        return False
    differing = [(one, other) for one, other in zip(left, right, strict=True) if one[0] != other[0]]
    if len(differing) != 1 or any(int(one[0]) >= _MOST_RANKS for one in differing[0]):
        return False
    number = differing[0][0]
    before, after = a[max(0, number.start() - 16) : number.start()], a[number.end() :]
    if word is not None:
        return word.search(before) is not None
    return _RUN_WORD.search(before) is None and _ENDING.fullmatch(after) is not None


def _are_different_ranks(a: Diagnosis, b: Diagnosis) -> bool:
    if a.ranks.first is not None and b.ranks.first is not None and a.ranks.first != b.ranks.first:
        return True
    return _rank_of(a) != _rank_of(b)


def _rank_of(one: Diagnosis) -> int | None:
    """The rank that wrote an input of one file; None where several did, or no prefix says."""
    ranks = {document.rank for document in one.evidence.documents}
    return ranks.pop() if len(ranks) == 1 else None


def _are_close(a: Diagnosis, b: Diagnosis) -> bool:
    """Whether both failed within a minute, as dated lines say."""
    times = [_time(a), _time(b)]
    known = [time for time in times if time is not None and time >= _FIRST_DATE]
    return len(known) == 2 and abs(known[0] - known[1]) <= _SECONDS_APART


def _time(one: Diagnosis) -> float | None:
    position: Position | None = one.incident.failure.position if one.incident is not None else None
    return None if position is None else time_of(one.evidence, position)
