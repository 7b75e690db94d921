"""Lines that say that the job ended well."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from oomph.evidence.facts.scan import Printer, Scanner
from oomph.evidence.facts.values import fact, is_failure_text, looks_like_code
from oomph.evidence.model import Document, Fact

_DONE = re.compile(
    r"\btraining (?:is |has )?(?:successfully )?(?:finished|completed?|done)\b|"
    r"\b(?:finished|completed|done with|done) training\b|"
    r"\bexit(?:ed)?(?: with)?(?: exit)? (?:code|status)[ :=]{1,3}0(?![\d.x])|"
    r"`Trainer\.fit` stopped: `max_(?:epochs|steps)=\d{1,12}` reached|"
    r"\{['\"]train_runtime['\"]: |^\W{0,4}\s*train_runtime\s+=\s|"
    r"(?:^|[\s:|])[Dd]one, \d{1,12} (?:steps|epochs|iterations)\b|"
    r"训练(?:已)?(?:结束|完成)|(?:学習|訓練)(?:が)?(?:完了|終了)|"
    r"\bSaved (?:the )?final model to \S|\bfinal model saved\b|"
    r"\bjob (?:has )?(?:finished|completed|succeeded) (?:successfully|ok)\b|\bRay job \S{0,80} succeeded",
    re.IGNORECASE,
)
_NOT_BEFORE = re.compile(
    r"\b(?:fail\w*|unsuccess\w*|not|abort\w*|until|once|if|before|when|after|will be|would|wait\w*|killed|e\.g)\b|"
    r"^\+ ?echo|\bepoch \d{1,6}\b",
    re.IGNORECASE,
)
_NOT_AFTER = re.compile(
    r"['\"]?\s?[:=]\s?['\"]?(?:false|no|0)\b|[^.\n]{0,40}\b(?:errors?|fail\w*|unsuccessful\w*|abort\w*)\b",
    re.IGNORECASE,
)


def parse(document: Document) -> list[Fact]:
    """success facts; the value is the words that say it."""
    return _SCANNER.run(document)


def _read(document: Document, indices: Sequence[int]) -> Iterable[Fact]:
    for index in indices:
        text = document.lines[index].text
        if is_failure_text(text.lower()) or looks_like_code(document, index):
            continue
        match = _DONE.search(text)
        if match and not _NOT_BEFORE.search(text, 0, match.end()) and not _NOT_AFTER.match(text, match.end()):
            yield fact(document, index, "success", match[0].strip(" :|{'\""))


PRINTER = Printer(
    (
        "training",
        "训练",
        "学習",
        "訓練",
        "exit code",
        "exit status",
        "exited with",
        "trainer.fit",
        "train_runtime",
        "done, ",
        "final model",
        "job finished",
        "job completed",
        "job succeeded",
        "job has",
        "ray job",
    ),
    _read,
)
_SCANNER = Scanner((PRINTER,))
