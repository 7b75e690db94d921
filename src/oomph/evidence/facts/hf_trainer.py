"""transformers' Trainer, diffusers' example scripts and PEFT: the "***** Running .. *****" blocks and their kin.

Sources: transformers/trainer.py (`_inner_training_loop`, `evaluation_loop`), diffusers/examples, peft
`print_trainable_parameters`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from oomph.evidence.facts.scan import Printer, Scanner
from oomph.evidence.facts.values import fact, is_failure_text, whole
from oomph.evidence.model import Document, Fact

_BLOCK = re.compile(
    r"\*{3,10}\s{0,4}Running (training|evaluation|prediction|testing|validation)\b[^*]{0,40}\*{3,10}",
    re.IGNORECASE,
)
_FIELD = re.compile(
    r"(Instantaneous batch size per device|Gradient Accumulation steps|Number of trainable parameters|Batch size)"
    r" = ([\d,]{1,20})\s*$"
)
_NAMES = {
    "Instantaneous batch size per device": "batch_size",
    "Gradient Accumulation steps": "accumulation",
    "Number of trainable parameters": "trainable_params",
    "Batch size": "eval_batch_size",
}
_PEFT = re.compile(r"trainable params: ([\d,_]{1,20}) \|\| all params: ([\d,_]{1,20})")
_CONFIG = re.compile(r"loading configuration file (\S{2,300})[/\\]config\.json")
_SAVING = re.compile(r"Saving model checkpoint to (\S+)")
_LOADING = re.compile(r"loading weights file \S|Loading checkpoint shards: ")
_CONTINUE = re.compile(r"Continuing training from (?:global step|epoch) (\d{1,12})")
_LOADED_FROM = re.compile(r"Loading model from (\S*checkpoint-\d{1,12}\S*?)\.?(?:\s|$)")
#: How far above "Batch size" its heading may stand.
_BLOCK_LINES = 6


def parse(document: Document) -> list[Fact]:
    """What the Trainer says about the job, and the phases that it announces."""
    return _SCANNER.run(document)


def _read(document: Document, indices: Sequence[int]) -> Iterable[Fact]:
    for index in indices:
        text = document.lines[index].text
        if is_failure_text(text.lower()):
            continue
        for name, value in _line(document, index, text):
            yield fact(document, index, name, value)


def _line(document: Document, index: int, text: str) -> Iterator[tuple[str, str]]:
    block = _BLOCK.search(text)
    if block:
        yield "phase_line", "train" if block[1].lower() == "training" else "eval"
        if "trainer.py" in text or "[transformers]" in text:  # diffusers' scripts print the same heading
            yield "framework", "transformers"
        return
    field = _FIELD.search(text)
    if field:
        value = whole(field[2])
        if value and (field[1] != "Batch size" or under_evaluation(document, index)):
            yield _NAMES[field[1]], value
        return
    peft = _PEFT.search(text)
    if peft:
        for name, printed in (("trainable_params", peft[1]), ("total_params", peft[2])):
            value = whole(printed)
            if value:
                yield name, value
        return
    config = _CONFIG.search(text)
    if config:
        yield "model", config[1]
    if _SAVING.search(text):
        yield "phase_line", "save"
    elif _LOADING.search(text):
        yield "phase_line", "load"
    yield from _resumed(text)


def _resumed(text: str) -> Iterator[tuple[str, str]]:
    match = _CONTINUE.search(text)
    if match:
        yield "resume", match[1]
    match = _LOADED_FROM.search(text)
    if match:
        yield "phase_line", "load"
        yield "resume", match[1]


def under_evaluation(document: Document, index: int) -> bool:
    """True when the Trainer's nearest heading above the line is one of an evaluation."""
    for line in reversed(document.lines[max(0, index - _BLOCK_LINES) : index]):
        block = _BLOCK.search(line.text)
        if block:
            return block[1].lower() != "training"
    return False


PRINTER = Printer(
    (
        "running training",
        "running evaluation",
        "running prediction",
        "running testing",
        "running validation",
        "instantaneous batch size",
        "gradient accumulation steps",
        "number of trainable parameters",
        "batch size = ",
        "trainable params:",
        "loading configuration file",
        "saving model checkpoint",
        "loading weights file",
        "loading checkpoint shards",
        "continuing training from",
        "loading model from",
    ),
    _read,
)
_SCANNER = Scanner((PRINTER,))
