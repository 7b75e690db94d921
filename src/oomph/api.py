"""The library's functions. None of them prints or exits."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import BinaryIO

from oomph.diagnose.engine import diagnose
from oomph.diagnose.model import Diagnosis
from oomph.evidence.read import read
from oomph.remedy.advise import advise


def explain(
    paths: Sequence[str | os.PathLike[str]],
    *,
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
    progress: Callable[[int, int], None] | None = None,
    stdin: BinaryIO | None = None,
) -> Diagnosis:
    """Reads what a job left behind and says why it failed.

    `paths` are files, folders, glob patterns or "-" (then `stdin` is read). `select` and `ignore` are rule-code
    prefixes. `progress(done_bytes, total_bytes)` is called now and then. Raises InputError when there is nothing to
    read; findings and contradictions are part of the answer, never exceptions.
    """
    evidence = read(paths, stdin=stdin, progress=progress)
    diagnosis, case = diagnose(evidence, select=select, ignore=ignore)
    if case is None or not diagnosis.findings:
        return diagnosis
    return replace(diagnosis, advice=advise(case, diagnosis.findings, diagnosis.incidents))
