"""Lines that show that training moves: a step with its loss, a bar of the training loop.

`value` is the step's number when one is printed (a bar's count is the number of finished iterations), else "".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from oomph.evidence.facts.bars import Bar, read_bar
from oomph.evidence.facts.phases import announced
from oomph.evidence.facts.scan import Printer, Scanner
from oomph.evidence.facts.values import fact, is_failure_text
from oomph.evidence.model import Document, Fact

#: Behind the word "loss": a figure, not the name of a setting ("loss_scale", "loss_weight"). Lower case.
_FIGURE = re.compile(
    r"(?!_?(?:scal|weight|coef|type|fn|func|ratio|alpha|beta|lambda|smooth|w\b))\w{0,12}['\"]?\s{0,4}[:=]?\s{0,4}"
    r"['\"(\[]?-?(?:\d|\.\d|nan\b|inf\b)"
)
_HELD_OUT = re.compile(r"(?:\beval|\bval|valid(?:ation)?|\btest|\bdev)[_ /-]?(?:loss|ppl|acc|perplexity)")
#: Behind a step word: its number, not a duration ("step 0.359s", "iter time").
_COUNT = re.compile(
    r"(?:s\b)?(?:\(train\))?['\"]?\s{0,2}[:=#]?\s{0,12}[\[('\"]?\s{0,12}(\d{1,12})(?!\d|\.\d|\s?(?:ms|s)\b)"
)
_STEP_WORDS = ("step", "num_update")
_ITERATION_WORDS = ("iteration", "iter", "it", "batch")
_STEP_PREFIXES = ("global", "train", "optimizer", "update")
_OF_TOTAL = re.compile(r"(?:^|[\s\]])\[\s{0,12}(\d{1,12})/\s{0,12}\d{1,12}\]")
_SAMPLES = re.compile(
    r"\[(\d{1,12})/\d{1,12} \([\d.]{1,6}%\)\]"
)  # pytorch/examples mnist: samples, not steps
_EPOCH_STEP = re.compile(
    r"\bepoch:?\s{0,2}\[?\d{1,6}\]?,? (?:it|iter|step|batch):? (\d{1,12})\b", re.IGNORECASE
)
#: An epoch's summary with a figure; Chinese and Japanese epochs; a finished trial of a study (Optuna). Each with a word
#: (lower case) without which it need not be looked for.
_UNNUMBERED = (
    ("epoch", re.compile(r"\bepoch:? \d{1,6} (?:finished|done|ended|completed?)\b", re.IGNORECASE)),
    (
        "epoch",
        re.compile(
            r"^\W{0,4}epoch[ :]{0,2}\d{1,6}(?:/\d{1,6})?[ :,|-]{1,4}\w[^\n]{0,60}?\d\.\d", re.IGNORECASE
        ),
    ),
    ("轮", re.compile(r"第 {0,2}\d{1,6} {0,2}轮.{0,40}?(?:损失|loss).{0,4}\d")),
    ("エポック", re.compile(r"エポック {0,2}\d{1,6}.{0,40}?(?:損失|loss).{0,4}\d")),
    ("trial", re.compile(r"\bTrial \d{1,6} finished with value")),
)
_TABLE = re.compile(r"^(\d{1,9})\s+\(\d{1,3}\.\d{1,4}%\)\s+[\d.]{1,12} (?:ms|s)\b")  # nerfstudio
_EPOCH = re.compile(r"\bepoch\b|['\"]loss['\"]")
_TOTAL_STEPS = re.compile(r"Total (?:optimization )?steps = (\d[\d,]{0,15})")


@dataclass
class _Stream:
    """What one writer has shown: the Trainer's step total, the last training bar, whether it evaluates."""

    trainer_total: int = 0
    bar_total: int = 0
    evaluating: bool = False
    last: tuple[str, int] = ("", -1)


def parse(document: Document) -> list[Fact]:
    """At most one progress fact per line; a bar that is drawn again without having moved gives none."""
    return _SCANNER.run(document)


def _read(document: Document, indices: Sequence[int]) -> Iterable[Fact]:
    streams: dict[str, _Stream] = {}
    for index in indices:
        line = document.lines[index]
        text = line.text
        stream = streams.get(line.stream)
        if stream is None:
            stream = streams[line.stream] = _Stream()
        bar = read_bar(text) if "%|" in text else None
        if bar:
            value = _of_bar(bar, stream)
            tail = text[text.find("]", text.find("%|")) + 1 :]
            if tail and _starts_evaluation(tail):
                stream.evaluating = True
        else:
            value = _of_line(text, stream)
        if value is not None:
            yield fact(document, index, "progress", value)


def _of_bar(bar: Bar, stream: _Stream) -> str | None:
    if bar.named_training:
        if stream.trainer_total and not bar.description and bar.total != stream.trainer_total:
            return None
    elif bar.unnamed:
        expected = stream.trainer_total or (stream.bar_total if stream.evaluating else 0)
        if (expected or stream.evaluating) and bar.total != expected:
            return None
    else:
        return None
    stream.evaluating = False
    stream.bar_total = bar.total
    key = (bar.description, bar.done)
    if stream.last == key:
        return None
    stream.last = key
    return str(bar.done)


def _of_line(text: str, stream: _Stream) -> str | None:
    low = text.lower()
    total = _TOTAL_STEPS.search(text)
    if total:
        stream.trainer_total = int(total[1].replace(",", ""))
        return None
    if "evaluat" in low or "validat" in low or "prediction" in low or "predicting" in low:
        stream.evaluating = stream.evaluating or _starts_evaluation(text)
    if is_failure_text(low) or _is_summary(low):
        return None
    if "loss" in low:
        value = _with_loss(low)
        if value is not None:
            stream.evaluating = False
        return value
    match = _EPOCH_STEP.search(text) or _TABLE.match(text)
    if match:
        return str(int(match[1]))
    for word, pattern in _UNNUMBERED:
        if word in low and pattern.search(text):
            return ""
    return None


def _is_summary(low: str) -> bool:
    """True for results of an evaluation or of the whole run, and for an echo of settings."""
    return (
        "eval_runtime" in low
        or "eval_loss" in low
        or "train_runtime" in low
        or "namespace(" in low
        or "arguments(" in low
        or "config(" in low
    )


def _starts_evaluation(text: str) -> bool:
    if "***** Running" in text:
        return "training" not in text.lower()
    return any(value == "eval" for _, value in announced(text))


def _with_loss(low: str) -> str | None:
    """The step of a line that prints a training loss; None when it does not."""
    if not _has_loss(low) or low.lstrip().startswith('file "'):
        return None
    if ("val" in low or "test" in low or "dev" in low) and _HELD_OUT.search(low):
        return None
    samples = _SAMPLES.search(low) if "%)" in low else None
    if samples:
        return "0" if int(samples[1]) == 0 else ""
    step = _number(low, _STEP_WORDS) or _number(low, _ITERATION_WORDS)
    if step is None:
        match = _OF_TOTAL.search(low)
        step = match[1] if match else None
    if step is not None:
        return str(int(step))
    return "" if _EPOCH.search(low) else None


def _has_loss(low: str) -> bool:
    """True when a figure stands behind one of the line's "loss" words."""
    at = low.find("loss")
    while at >= 0:
        if _FIGURE.match(low, at + 4):
            return True
        at = low.find("loss", at + 4)
    return False


def _number(low: str, words: tuple[str, ...]) -> str | None:
    """The count behind the first of `words` that stands by itself."""
    for word in words:
        at = low.find(word)
        while at >= 0:
            before = low[at - 1] if at else " "
            if not (before.isalnum() or before == "_") or (
                before == "_" and low[:at].rstrip("_").endswith(_STEP_PREFIXES)
            ):
                match = _COUNT.match(low, at + len(word))
                if match:
                    return match[1]
            at = low.find(word, at + 1)
    return None


PRINTER = Printer(
    (
        "loss",
        "%|",
        "epoch",
        "total optimization steps",
        "total steps = ",
        "evaluat",
        "validat",
        "predicti",
        "%)",
        "finished with value",
        "损失",
        "損失",
    ),
    _read,
)
_SCANNER = Scanner((PRINTER,))
