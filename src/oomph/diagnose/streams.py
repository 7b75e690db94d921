"""The two streams of one process: its traceback stands in one file, its progress in the other."""

from __future__ import annotations

import re

from oomph.evidence.model import Document, Evidence, Position

_STREAM = re.compile(r"(?:^|[._-])(std)?(out|err)(?=$|[._-])|(?<=[._-])(o|e)(?=\d*$)", re.IGNORECASE)


def other_stream(evidence: Evidence, document: int) -> int | None:
    """The document that holds the same process's other stream (stdout.log and stderr.log, slurm-7.out and slurm-7.err).

    Told by the paths, which must be equal but for the stream's name. None where there is none.
    """
    return evidence.derived(_Pairs).other.get(document)


def steps_in_other_stream(evidence: Evidence, at: Position) -> bool:
    """Whether the process whose fatal failure stands at `at` printed a finished training step on its other stream.

    A process prints nothing after its fatal failure, so all of the other stream stands before it.
    """
    other = other_stream(evidence, at.document)
    if other is None or evidence.facts_in(at.document, "progress"):
        return False
    return any(
        fact.value.isdecimal() and int(fact.value) >= 1 for fact in evidence.facts_in(other, "progress")
    )


def last_step(evidence: Evidence, at: Position, rank: int | None, status: str) -> str | None:
    """The number of the last step that was printed before a failure, of its rank where ranks are known.

    A fatal failure's step may stand on the process's other stream.
    """
    found = None
    for fact in evidence.facts_in(at.document, "progress"):
        if fact.position.line >= at.line:
            break
        if fact.value.isdecimal() and (fact.rank is None or rank is None or fact.rank == rank):
            found = fact.value
    if found is None and status == "fatal" and steps_in_other_stream(evidence, at):
        other = other_stream(evidence, at.document)
        numbers = [fact.value for fact in evidence.facts_in(other or 0, "progress") if fact.value.isdecimal()]
        return numbers[-1]
    return found


class _Pairs:
    """Document -> the document of the other stream."""

    def __init__(self, evidence: Evidence) -> None:
        self.other: dict[int, int] = {}
        first: dict[tuple[str, int | None, int | None], Document] = {}
        for document in evidence.documents:
            key = _without_stream(document.source)
            if key is None:
                continue
            mate = first.setdefault((key, document.rank, document.attempt), document)
            if mate is not document:
                self.other[document.index], self.other[mate.index] = mate.index, document.index


def _without_stream(source: str) -> str | None:
    folder, _, name = source.replace("\\", "/").rpartition("/")
    without, count = _STREAM.subn("*", name, count=1)
    return f"{folder}/{without}" if count else None
