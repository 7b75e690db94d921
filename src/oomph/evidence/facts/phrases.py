"""Sentences in which a library or a script states one setting."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from oomph.evidence.facts.scan import Printer, Scanner
from oomph.evidence.facts.values import dtype, fact, is_failure_text, looks_like_code, whole
from oomph.evidence.model import Document, Fact

Pairs = Iterable[tuple[str, str]]

_FUSED = re.compile(r"using (fused \w{2,20}): True")  # nanoGPT
_LORA_DIM = re.compile(r"base dim \(rank\): (\d{1,5})")  # kohya-ss sd-scripts
_LORA_R = re.compile(r"\bLoraConfig\([^\n]{0,2000}?\br=(\d{1,5})\b")  # PEFT's repr
_LONGEST = re.compile(r"\blongest (?:sample |sequence |example )?(\d[\d,]{0,12}) tokens")
_PADDED = re.compile(r"padded vocab \(size: \d+\) with \d+ dummy tokens \(new size: (\d+)\)")  # Megatron
_DEFAULT_DTYPE = re.compile(r"model under default dtype (torch\.\w+)")  # transformers
_TUNE_DTYPE = re.compile(r"Model is initialized with precision (torch\.\w+)")  # torchtune
_WEIGHTS_DTYPE = re.compile(r"\bweights (?:in|as|dtype) (torch\.\w+|fp32|fp16|bf16)\b")
_MEGATRON_DTYPE = re.compile(r"using (torch\.\w+) for parameters")
_NO_CACHE = re.compile(r"`?use_cache ?= ?True`? is incompatible with gradient checkpointing")  # transformers
_APPLIED = re.compile(r"Applied (?:full|selective|memory_budget) activation checkpointing")  # torchtitan
_ADAM8 = re.compile(r"use 8-?bit Adam(?:W)? optimizer ?[|:]", re.IGNORECASE)
_USE_8BIT = re.compile(r"(use (8-?bit AdamW?) optimizer) ?[|:] ?\{?\}?(?:True|on)?\s*$", re.IGNORECASE)


def parse(document: Document) -> list[Fact]:
    """Settings stated in fixed sentences."""
    return _SCANNER.run(document)


def _number(name: str, pattern: re.Pattern[str]) -> Callable[[str], Pairs]:
    def read(text: str) -> Pairs:
        match = pattern.search(text)
        value = whole(match[1]) if match else None
        return ((name, value),) if value else ()

    return read


def _format(pattern: re.Pattern[str]) -> Callable[[str], Pairs]:
    def read(text: str) -> Pairs:
        match = pattern.search(text)
        value = dtype(match[1]) if match else None
        return ((("dtype", value),)) if value else ()

    return read


def _on(pattern: re.Pattern[str]) -> Callable[[str], Pairs]:
    return lambda text: (("checkpointing", "true"),) if pattern.search(text) else ()


def _optimizer(text: str) -> Pairs:
    match = _FUSED.search(text)
    if match:
        return (("optimizer", match[1]),)
    if _ADAM8.search(text):
        match = _USE_8BIT.search(text)
        return (("optimizer", match[2]),) if match else ()
    return ()


#: A word of each sentence (lower case) and its reader.
_SENTENCES: tuple[tuple[str, Callable[[str], Pairs]], ...] = (
    ("using fused", _optimizer),
    ("bit adam", _optimizer),
    ("base dim (rank)", _number("lora_rank", _LORA_DIM)),
    ("loraconfig(", _number("lora_rank", _LORA_R)),
    ("longest", _number("sequence_length", _LONGEST)),
    ("padded vocab (size", _number("vocab_size", _PADDED)),
    ("under default dtype", _format(_DEFAULT_DTYPE)),
    ("initialized with precision", _format(_TUNE_DTYPE)),
    ("for parameters", _format(_MEGATRON_DTYPE)),
    ("weights", _format(_WEIGHTS_DTYPE)),
    ("incompatible with gradient checkpointing", _on(_NO_CACHE)),
    ("activation checkpointing", _on(_APPLIED)),
)


def _read(document: Document, indices: Sequence[int]) -> Iterable[Fact]:
    for index in indices:
        text = document.lines[index].text
        low = text.lower()
        if is_failure_text(low) or looks_like_code(document, index):
            continue
        for word, reader in _SENTENCES:
            if word in low:
                for name, value in reader(text):
                    yield fact(document, index, name, value)


PRINTER = Printer(tuple(word for word, _ in _SENTENCES), _read)
_SCANNER = Scanner((PRINTER,))
