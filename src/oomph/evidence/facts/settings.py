"""What the value behind a setting's name means: (fact name, fact value) pairs for one place in a line."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from oomph.evidence.facts.values import dtype, switch, whole

Pairs = Sequence[tuple[str, str]]

_INT = re.compile(r"(\d{1,3}(?:[,_]\d{3})+|\d{1,12})(?![\w%])(?!\.\d)(?!\s{0,3}[x×*]\s{0,3}\d)(?!\s?/\s?\d)")
_FLAG = re.compile(
    r"(?:\{\s{0,4}['\"]?enabled['\"]?\s{0,4}[:=]\s{0,4})?"
    r"(true|false|yes|no|on|off|enabled|disabled|none|null|full|selective|unsloth|1|0)(?!\w|\.\w)",
    re.IGNORECASE,
)
_WORD = re.compile(r"[\w.+-]{1,60}")
_OPTIMIZER = re.compile(
    r"(?:\{\s{0,4}['\"]?type['\"]?\s{0,4}:\s{0,4}['\"]?|dict\((?:[^()]{0,200}?,\s?)?type=['\"]|"
    r"<OptimizerNames\.\w{1,40}: ['\"]|OptimizerNames\.|torch\.optim\.)?([A-Za-z][\w.+-]{1,60})"
)
_OPTIMIZER_NAME = re.compile(
    r"adam|sgd|lion|adafactor|adagrad|rmsprop|lamb\b|lars\b|muon|shampoo|soap|prodigy|sophia|galore|lomo|adadelta|"
    r"adan\b|madgrad|ranger|novograd|came\b|schedule_?free",
    re.IGNORECASE,
)
_PATH = re.compile(r"([^\s'\",;(){}\[\]|=]{2,300})['\"]?(?=\s*(?:[,;)}\]|]|$))")
_MODEL_NAME = re.compile(
    r"(?=[\w./~\\:@+-]{2,300}$)(?=.{0,300}?[A-Za-z])(?=.{0,300}?[-/\\.\d_])[\w./~\\]", re.ASCII
)
_SHARD = re.compile(
    r"[\['\"<]*(?:FSDPOption\.)?(full_shard|shard_grad_op|hybrid_shard|true\b)", re.IGNORECASE
)
_DISTRIBUTED = re.compile(r"(?:DistributedType\.)?(FSDP|DEEPSPEED|MEGATRON_LM|MULTI_GPU)\b")
_STAGE = re.compile(r"(?:zero|stage)[_-]?([123])(?!\d)", re.IGNORECASE)
_NUMBER = re.compile(r"0?\.\d{1,6}|1\.0{1,6}")
_MIXED = {
    "no": "no",
    "none": "no",
    "fp32": "no",
    "float32": "no",
    "32": "no",
    "32-true": "no",
    "fp16": "fp16",
    "float16": "fp16",
    "16": "fp16",
    "16-mixed": "fp16",
    "amp_fp16": "fp16",
    "bf16": "bf16",
    "bfloat16": "bf16",
    "bf16-mixed": "bf16",
    "amp_bf16": "bf16",
    "fp8": "fp8",
}
_PURE = {"bf16-true": "bf16", "16-true": "fp16", "fp16-true": "fp16", "32-true": "fp32"}
_LARGEST = {"batch_size": 10**7, "eval_batch_size": 10**7, "sequence_length": 10**8, "vocab_size": 10**8}


def read_setting(kind: str, text: str, at: int) -> Pairs:
    """The facts that `kind` (a value of ALIASES) makes of the text at `at`; empty where the value is not one."""
    reader = _READERS.get(kind)
    return reader(text, at) if reader else _integer(kind, text, at)


def value_end(kind: str, text: str, at: int) -> int:
    """Where the value that read_setting used ends (for checking what follows it)."""
    if kind in ("model", "resume"):
        match = _PATH.match(text, at)
    elif kind in _READERS:
        match = _FLAG.match(text, at) or _WORD.match(text, at)
    else:
        match = _INT.match(text, at)
    return match.end() if match else at


def _integer(name: str, text: str, at: int) -> Pairs:
    match = _INT.match(text, at)
    value = whole(match[1]) if match else None
    if value is None or int(value) > _LARGEST.get(name, 10**6):
        return ()
    return ((name, value),)


def _checkpointing(text: str, at: int) -> Pairs:
    match = _FLAG.match(text, at)
    value = switch(match[1]) if match else None
    return (("checkpointing", value),) if value else ()


def _half(name: str) -> Callable[[str, int], Pairs]:
    def read(text: str, at: int) -> Pairs:
        match = _FLAG.match(text, at)
        value = switch(match[1]) if match else None
        return ((name, value),) if value else ()

    return read


def _precision(text: str, at: int) -> Pairs:
    match = _WORD.match(text, at)
    word = match[0].lower().removeprefix("torch.") if match else ""
    pairs: list[tuple[str, str]] = []
    if word in _PURE:
        pairs.append(("dtype", _PURE[word]))
    if word in _MIXED:
        pairs.append(("mixed_precision", _MIXED[word]))
    return pairs


def _dtype(text: str, at: int) -> Pairs:
    match = _WORD.match(text, at)
    value = dtype(match[0].rstrip(".")) if match else None
    return (("dtype", value),) if value else ()


def _optimizer(text: str, at: int) -> Pairs:
    match = _OPTIMIZER.match(text, at)
    if match is None or not _OPTIMIZER_NAME.search(match[1]):
        return ()
    return (("optimizer", match[1].rstrip(".")),)


def _bits(bits: str) -> Callable[[str, int], Pairs]:
    def read(text: str, at: int) -> Pairs:
        match = _FLAG.match(text, at)
        return (("quantization", bits),) if match and switch(match[1]) == "true" else ()

    return read


def _quantization(text: str, at: int) -> Pairs:
    match = _WORD.match(text, at)
    word = match[0].lower() if match else ""
    for bits, spellings in (
        ("4bit", ("4", "4bit", "4-bit", "nf4", "fp4", "int4", "bnb_4bit", "bnb-nf4")),
        ("8bit", ("8", "8bit", "8-bit", "int8", "bnb_8bit", "llm_int8")),
        ("none", ("none", "no", "false")),
    ):
        if word in spellings:
            return (("quantization", bits),)
    return ()


def _strategy(text: str, at: int) -> Pairs:
    match = _WORD.match(text, at)
    word = match[0].lower() if match else ""
    stage = _STAGE.search(word)
    pairs: list[tuple[str, str]] = [("zero_stage", stage[1])] if stage else []
    names = ("deepspeed", "fsdp", "ddp", "colossalai", "megatron")
    return [*pairs, *(("framework", name) for name in names if word.startswith(name))]


def _framework(text: str, at: int) -> Pairs:
    match = _SHARD.match(text, at)
    if match:
        return (("framework", "fsdp"),)
    match = _WORD.match(text, at)
    word = match[0].lower() if match else ""
    if word.endswith((".json", ".yaml", ".yml")) or "/" in text[at : at + 60].split(",")[0]:
        return (("framework", "deepspeed"),)
    return ()


def _distributed_type(text: str, at: int) -> Pairs:
    match = _DISTRIBUTED.match(text, at)
    names = {"FSDP": "fsdp", "DEEPSPEED": "deepspeed", "MEGATRON_LM": "megatron", "MULTI_GPU": "ddp"}
    return (("framework", names[match[1]]),) if match else ()


def _fsdp(text: str, at: int) -> Pairs:
    return (("framework", "fsdp"),) if _SHARD.match(text, at) else ()


def _model(text: str, at: int) -> Pairs:
    match = _PATH.match(text, at)
    if match is None or switch(match[1]) or not _MODEL_NAME.match(match[1]):
        return ()
    return (("model", match[1]),)


def _resume(text: str, at: int) -> Pairs:
    match = _PATH.match(text, at)
    word = match[1] if match else ""
    if word == "resume" or (word != "1" and switch(word) == "true"):
        return (("resume", "true"),)
    if re.search(r"[/\\]|ckpt|checkpoint|latest|last\b", word):
        return (("resume", word),)
    return ()


def _fraction(text: str, at: int) -> Pairs:
    match = _NUMBER.match(text, at)
    return (("memory_fraction", match[0]),) if match else ()


_READERS: Mapping[str, Callable[[str, int], Pairs]] = {
    "checkpointing": _checkpointing,
    "fp16": _half("fp16"),
    "bf16": _half("bf16"),
    "precision": _precision,
    "dtype": _dtype,
    "optimizer": _optimizer,
    "load_in_4bit": _bits("4bit"),
    "load_in_8bit": _bits("8bit"),
    "quantization": _quantization,
    "strategy": _strategy,
    "deepspeed": _framework,
    "fsdp": _fsdp,
    "distributed_type": _distributed_type,
    "model": _model,
    "resume": _resume,
    "memory_fraction": _fraction,
}
