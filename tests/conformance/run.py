"""Asks oomph about every log of a folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from oomph.diagnose.model import Diagnosis
from tests.conformance.claims import Claims, claims_of
from tests.conformance.labels import Label, load
from tests.conformance.score import Tally, score

Explain = Callable[[list[Path]], Diagnosis]


def answers(labels: list[Label], explain: Explain) -> Iterator[tuple[Label, Claims]]:
    """Each label with what oomph says; an exception of any kind is a crash of that log, not of the run."""
    for label in labels:
        try:
            claims = claims_of(explain([label.path]))
        except Exception as error:  # noqa: BLE001 - a crash is what is being counted
            claims = Claims(crash=f"{type(error).__name__}: {error}")
        yield label, claims


def judge(folder: Path, explain: Explain | None = None) -> Tally:
    """The rates on `folder`. Raises FolderError when it is not a folder of labelled logs."""
    labels = load(folder)
    return score(answers(labels, explain or oomph_explain()))


def oomph_explain() -> Explain:
    """oomph's own `explain`; imported late, so that a bad folder is told without it."""
    from oomph.api import explain

    return explain
