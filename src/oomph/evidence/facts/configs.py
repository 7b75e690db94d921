"""Settings that a job echoes: YAML, JSON, dicts, argparse namespaces, dotted tables, comma lists, command lines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from ahocorasick_rs import AhoCorasick, MatchKind

from oomph.evidence.facts.aliases import ALIASES, COMMON_WORDS
from oomph.evidence.facts.hf_trainer import under_evaluation
from oomph.evidence.facts.pids import role
from oomph.evidence.facts.scan import Printer, Scanner
from oomph.evidence.facts.settings import read_setting, value_end
from oomph.evidence.facts.values import fact, is_failure_text, looks_like_code
from oomph.evidence.model import Document, Fact

_NAMES = list(ALIASES)
_FIND = AhoCorasick(_NAMES, matchkind=MatchKind.LeftmostLongest).find_matches_as_indexes
_SEPARATOR = re.compile(
    r"['\"]?(?:\s{0,4}\([^()]{0,40}\)|\s{0,4}/\s{0,4}[^\s:=/]{1,20})?"
    r"(?:\s{0,60}(?P<mark>\.{2,200}|={1,2}|:|\||│)|\s)\s{0,60}['\"]?"
)
_COMMAND = re.compile(r"\b(?:python[\d.]{0,4}|torchrun|deepspeed|accelerate|srun|mpirun|cmd)\b|\.py\b|^\s*--")
#: Words before a name that make it another setting ("global batch_size", "tokens per micro-batch").
_NOT_THIS = frozenset(
    (
        *(
            "global",
            "total",
            "effective",
            "overall",
            "world",
            "rollout",
            "gen",
            "generation",
            "inference",
            "infer",
        ),
        *("prompt", "teacher", "draft", "reward", "tokenizer", "find", "scale", "critic", "ref", "by", "old"),
        *("compute", "buffer", "cache", "kv", "per"),
    )
)
_LIMITS = frozenset({"max", "maximum", "min", "minimum", "smallest", "largest"})
_EVALUATION = frozenset({"eval", "evaluation", "val", "valid", "validation", "test"})
#: What may stand before a name that is also an ordinary word.
_OPENERS = frozenset({"info", "warning", "debug", "notice", "weights", "model", "with", "using"})
_JOINTS = str.maketrans("_./-([{'\"", "         ")
_EVAL_PARENT = re.compile(r"eval|\bval|valid|test", re.IGNORECASE)
_OTHER_PARENT = re.compile(
    r"generat|rollout|vllm|sglang|infer|sampl|reward|teacher|critic|tokenizer", re.IGNORECASE
)
_PROGRESS = re.compile(r"\b(?:loss|epoch|iter|step|lr)\b")
_AFTER = re.compile(r"['\"]?\.?\s*(?:[,;)|\]}]|$|/(?:gpu|device|rank)\b)")
_FLAGS = frozenset({"fp16", "bf16", "checkpointing", "load_in_4bit", "load_in_8bit"})
_PEEK = {
    "optimizer": re.compile(r"[\s{]*['\"]?(?:type|name|_target_|_component_)['\"]?\s*[:=]\s*['\"]?"),
    "fp16": re.compile(r"[\s{]*['\"]?enabled['\"]?\s*[:=]\s*['\"]?"),
    "bf16": re.compile(r"[\s{]*['\"]?enabled['\"]?\s*[:=]\s*['\"]?"),
}
_LOOK_BACK = 120
#: A model's own config describes the files; it does not say how this job loads them.
_OF_MODEL_CONFIG = frozenset({"vocab_size", "load_in_4bit", "load_in_8bit"})


@dataclass
class _State:
    deepspeed: bool = False
    halves: dict[str, bool] = field(default_factory=dict)
    latest: dict[str, str] = field(default_factory=dict)


def parse(document: Document) -> list[Fact]:
    """Settings echoed by the job, in the order of the lines; the last of a name is the one in force. A value that
    is in force already is not repeated."""
    return _SCANNER.run(document)


def _read(document: Document, indices: Sequence[int]) -> Iterable[Fact]:
    state = _State(deepspeed=_has_deepspeed(document, indices))
    for index in indices:
        text = document.lines[index].text
        low = text.lower()
        if len(low) != len(text):
            text = low
        if is_failure_text(low) or _of_engine(document, index, low):
            continue
        code: bool | None = None
        for name, value, below in _line(document, index, text, low, state):
            if state.latest.get(name) == value:
                continue
            code = looks_like_code(document, index) if code is None else code
            if not code:
                state.latest[name] = value
                yield fact(document, index + below, name, value)


def _of_engine(document: Document, index: int, low: str) -> bool:
    """True for what an inference engine prints about itself."""
    stream = document.lines[index].stream
    if stream.startswith("ray:") and role(stream.split(":")[1]) == "engine_pid":
        return True
    return "llm engine" in low or "server_args" in low


def _has_deepspeed(document: Document, indices: Sequence[int]) -> bool:
    """True when DeepSpeed's own config is in the text: then `train_batch_size` is the global batch."""
    for index in indices:
        text = document.lines[index].text
        if "train_micro_batch_size_per_gpu" in text or "DeepSpeed" in text or "/deepspeed/" in text:
            return True
    return False


def _line(
    document: Document, index: int, text: str, low: str, state: _State
) -> Iterator[tuple[str, str, int]]:
    listed = low.replace("', '", " ").replace("'", " ") if "', '--" in low else ""
    if listed:  # a command as Python prints its list
        text = text.replace("', '", " ").replace("'", " ")
        low = listed
    try:
        hits = _FIND(low)
    except UnicodeEncodeError:
        return
    for number, start, end in hits:
        name = _NAMES[number]
        kind = ALIASES[name]
        if not _is_name(low, start, end, name, state):
            continue
        pairs, below = _values(document, index, text, low, (start, end), name, kind)
        for pair in pairs:
            for key, value in _resolve(pair, state):
                yield key, value, below


def _is_name(low: str, start: int, end: int, name: str, state: _State) -> bool:
    """True when what stands at start..end is a whole name, and the one that ALIASES means."""
    after = low[end : end + 2]
    if after[:1].isalnum() or after[:1] == "_" or (after[:1] in "-." and after[1:].isalpha()):
        return False
    before = low[max(0, start - 40) : start]
    last = before[-1:]
    if last.isalnum() or last in ("_", "/", "\\") or (last == "-" and not before.endswith(("--", " -"))):
        return False
    if last == "." and name.replace("-", "_").replace(" ", "_") == "train_batch_size":
        return False
    if state.deepspeed and name.replace("-", "_").replace(" ", "_") == "train_batch_size":
        return False
    word = _word_before(before)
    kind = ALIASES[name]
    if word in _NOT_THIS or (word in _LIMITS and kind in ("batch_size", "accumulation")):
        return False
    if name in COMMON_WORDS and not before.endswith("--") and kind != "optimizer":
        opener = before.rstrip()
        if opener and opener[-1] in "'\"":
            opener = opener[:-1].rstrip()
        if opener and opener[-1] not in ",;:|│{([]>=*/-" and word not in _OPENERS:
            return False
        if name in ("batch", "seq") and _PROGRESS.search(low):
            return False
    return True


def _word_before(before: str) -> str:
    return before.translate(_JOINTS).rstrip().rpartition(" ")[2]


def _values(
    document: Document,
    index: int,
    text: str,
    low: str,
    span: tuple[int, int],
    name: str,
    kind: str,
) -> tuple[Iterable[tuple[str, str]], int]:
    """The pairs that one name gives, and how many lines below it its value stands."""
    start, end = span
    below = 0
    option = low[max(0, start - 2) : start] == "--" and low[max(0, start - 3) : start - 2] in ("", " ", "\t")
    if option and not _COMMAND.search(low):
        return (), 0
    separator = _SEPARATOR.match(text, end)
    rest = text[end:].strip()
    if option and kind in _FLAGS and (not rest or rest.startswith(("--", "\\"))):
        return _from_parent(document, index, text, start, kind, read_setting(kind, "true", 0)), 0
    if separator is None:
        return (), 0
    if name == "batch size" and under_evaluation(document, index):
        return (), 0  # the Trainer's "  Batch size = 8", which hf_trainer.py reads
    at = separator.end()
    pairs = read_setting(kind, text, at)
    if not pairs and kind in _PEEK and text[at:].strip(" '\"") in ("", "{"):
        pairs, below = _peek(document, index, kind)
    elif pairs and separator["mark"] is None and not option and kind != "world_size":
        tail = _AFTER.match(text, value_end(kind, text, at))
        if tail is None and ("_" not in name or kind in ("model", "resume")):
            return (), 0
    return _from_parent(document, index, text, start, kind, pairs), below


def _peek(document: Document, index: int, kind: str) -> tuple[Sequence[tuple[str, str]], int]:
    """A nested value: the type or the switch stands on one of the next lines."""
    for below, line in enumerate(document.lines[index + 1 : index + 4], start=1):
        match = _PEEK[kind].match(line.text)
        if match:
            return read_setting(kind, line.text, match.end()), below
    return (), 0


def _from_parent(
    document: Document,
    index: int,
    text: str,
    start: int,
    kind: str,
    pairs: Sequence[tuple[str, str]],
) -> Iterable[tuple[str, str]]:
    """The pairs, after asking what the setting belongs to: an evaluation's batch is not the training's."""
    if not pairs:
        return ()
    before = text[max(0, start - 40) : start].lower()
    head = text[:start].strip(" \t'\"-")
    parent = _inline_parent(text, start) if head else _parent(document, index)
    if parent.rstrip(" {(:'\"").endswith("data") and kind == "batch_size":
        return ()  # the loader's batch of an RL trainer is the global one
    if _word_before(before) in _EVALUATION or (parent and _EVAL_PARENT.search(parent)):
        return [("eval_batch_size", value) for name, value in pairs if name.endswith("batch_size")]
    if parent:
        if _OTHER_PARENT.search(parent):
            return ()
        if parent.endswith("{") and parent.lower().rstrip("{ ").endswith("config"):
            return pairs if kind in _OF_MODEL_CONFIG else ()
    return pairs


def _inline_parent(text: str, start: int) -> str:
    """The name before the bracket that is open at `start` ("'rollout': {" or "val_dataloader = dict("), or ""."""
    depth = 0
    for at in range(start - 1, max(-1, start - 2_000), -1):
        letter = text[at]
        if letter in ")}":
            depth += 1
        elif letter in "({":
            if depth == 0:
                return text[max(0, at - 60) : at].split(",")[-1].split("{")[-1].split("(")[-1] + letter
            depth -= 1
    return ""


def _parent(document: Document, index: int) -> str:
    """The heading that an indented line stands under ("eval:", "Model config LlamaConfig {"), or ""."""
    depth = _indent(document.lines[index].text)
    if depth == 0:
        return ""
    for number in range(index - 1, max(-1, index - 1 - _LOOK_BACK), -1):
        text = document.lines[number].text
        if text.strip() and _indent(text) < depth:
            head = text.strip()
            return head if head.endswith((":", "{", "(")) else ""
    return ""


def _indent(text: str) -> int:
    return len(text) - len(text.lstrip())


def _resolve(pair: tuple[str, str], state: _State) -> Iterator[tuple[str, str]]:
    """fp16/bf16 switches become mixed_precision; "no" only when both are known to be off."""
    name, value = pair
    if name not in ("fp16", "bf16"):
        yield pair
        return
    state.halves[name] = value == "true"
    if value == "true":
        yield "mixed_precision", name
    elif len(state.halves) == 2 and not any(state.halves.values()):
        yield "mixed_precision", "no"


PRINTER = Printer(tuple(ALIASES), _read)
_SCANNER = Scanner((PRINTER,))
