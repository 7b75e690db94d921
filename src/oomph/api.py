"""The library's functions. None of them prints or exits."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import BinaryIO

from oomph.diagnose.compare import Comparison
from oomph.diagnose.compare import compare as compare_diagnoses
from oomph.diagnose.engine import diagnose
from oomph.diagnose.jobs import are_two_runs, of_one_job, several_jobs
from oomph.diagnose.model import Diagnosis
from oomph.evidence.read import read
from oomph.remedy.advise import advise

__all__ = ["are_two_runs", "compare", "explain"]


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
    if diagnosis.incident is not None:
        document = diagnosis.incident.failure.position.document
        difference = several_jobs(evidence, document)
        if difference:
            evidence = of_one_job(evidence, document)
            diagnosis, case = diagnose(evidence, select=select, ignore=ignore, rank=rank)
            note = (
                f"The input looks like several jobs ({difference}): of the job, only what "
                f"{evidence.documents[document].source} says is used. Explain each job by itself."
            )
            diagnosis = replace(diagnosis, notes=(note, *diagnosis.notes))
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
