"""The library's functions. None of them prints or exits."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import BinaryIO

from oomph.diagnose.compare import Comparison
from oomph.diagnose.compare import compare as compare_diagnoses
from oomph.diagnose.engine import diagnose
from oomph.diagnose.model import Diagnosis
from oomph.evidence.read import read
from oomph.remedy.advise import advise


def explain(
    paths: Sequence[str | os.PathLike[str]],
    *,
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
    rank: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    stdin: BinaryIO | None = None,
) -> Diagnosis:
    """Reads what a job left behind and says why it failed.

    `paths` are files, folders, glob patterns or "-" (then `stdin` is read). `select` and `ignore` are rule-code
    prefixes. With `rank`, that rank's failure is explained where several ranks failed. `progress(done_bytes,
    total_bytes)` is called now and then. Raises InputError when there is nothing to read; findings and contradictions
    are part of the answer, never exceptions.
    """
    evidence = read(paths, stdin=stdin, progress=progress)
    diagnosis, case = diagnose(evidence, select=select, ignore=ignore, rank=rank)
    if case is None or not diagnosis.findings:
        return diagnosis
    return replace(diagnosis, advice=advise(case, diagnosis.findings, diagnosis.incidents))


def compare(
    path_a: str | os.PathLike[str],
    path_b: str | os.PathLike[str],
    *,
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
    progress: Callable[[int, int], None] | None = None,
) -> Comparison:
    """Explains two failed runs of one job and says what differs between them. Errors as in `explain`."""
    a = explain([path_a], select=select, ignore=ignore, progress=progress)
    b = explain([path_b], select=select, ignore=ignore, progress=progress)
    return compare_diagnoses(os.fspath(path_a), a, os.fspath(path_b), b)


def _rank_of(one: Diagnosis) -> int | None:
    """The rank that wrote an input of one file; None where several did, or no prefix says."""
    ranks = {document.rank for document in one.evidence.documents}
    return ranks.pop() if len(ranks) == 1 else None


def are_two_runs(a: Diagnosis, b: Diagnosis) -> bool:
    """True when two inputs look like two runs of one job rather than two ranks, or the two streams, of one run.

    Both must have failed on their own, with different numbers, and not as different ranks.
    """
    if a.incident is None or b.incident is None:
        return False
    if a.ranks.first is not None and b.ranks.first is not None and a.ranks.first != b.ranks.first:
        return False
    rank_a, rank_b = _rank_of(a), _rank_of(b)
    if rank_a != rank_b:
        return False
    same = a.incident.failure.numbers == b.incident.failure.numbers and bool(a.incident.failure.numbers)
    return not (same and a.incident.failure.quote.text == b.incident.failure.quote.text)
