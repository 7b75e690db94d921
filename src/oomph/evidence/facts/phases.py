"""Lines with which a job announces what it is about to do.

Only present and future count ("Saving checkpoint to ..", "Running validation"); a past ("saved", "loaded") does not,
nor does a sentence that only talks about a phase.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from oomph.evidence.facts.bars import Bar, read_bar
from oomph.evidence.facts.scan import Printer, Scanner
from oomph.evidence.facts.values import fact, is_failure_text, looks_like_code
from oomph.evidence.model import Document, Fact

_EVAL = re.compile(
    r"\b(?:running|starting|start|begin(?:ning)?|doing|performing) (?:the )?(?:final |full |online )?"
    r"(?:validation|evaluation|eval|inference|testing)\b|"
    r"\b(?:evaluating|validating)\b|\bvalidation sanity check\b|\bsanity checking\b|\bpredicting \d|"
    r"\bevaluation of (?:the )?model\b|^\W{0,3}val(?:idation)? \d{1,9}/\d|\b(?:Iter|Epoch)\((?:val|test)\)|"
    r"\bInference done \d{1,9}/\d",
    re.IGNORECASE,
)
_GENERATE = re.compile(
    r"\bsampling \d{1,9} |\bgenerating (?:\d{1,9} )?(?:samples?|completions?|responses?|rollouts?|text|continuations?|"
    r"sequences?|outputs?)\b|\bwaking up (?:the )?(?:vllm|engine|sglang)",
    re.IGNORECASE,
)
_PREVIEW = re.compile(
    r"\b(?:building|creating|generating|rendering|running|sampling)\b[^\n]{0,40}?\b(?:preview|sample|validation) ?"
    r"(?:pipelines?|images?|videos?|prompts?|previews?)\b|\bgenerating (?:\d{1,9} )?(?:images|videos|previews)\b",
    re.IGNORECASE,
)
_SAVE = re.compile(
    r"\b(?:saving|writing) (?:the )?(?:\w{1,20} ){0,2}?"
    r"(?:checkpoints?|ckpt|state(?:[ _]dict)?|weights|snapshot|model)\b|"
    r"\bsave (?:checkpoint|ckpt|model) to\b",
    re.IGNORECASE,
)
_LOAD = re.compile(
    r"\bload(?:ing)? (?:the |base |pre-?trained |initial ){0,3}(?:[\w.\-]{1,40} ){0,2}?"
    r"(?:model|weights|checkpoints?|ckpt|state[_ ]dict|layers|block|adapters?|transformer|unet|vae|text encoder|"
    r"states)\b|\bloading \S{0,200}/\S{1,200} with device_map\b|\bloading \S{1,200} with map_location\b|"
    r"\breading (?:the )?checkpoint (?:shard|file)s?\b|\bbuilding (?:the )?\w{1,40} from \S{0,200}[/\\]",
    re.IGNORECASE,
)
_NOT_WEIGHTS = re.compile(
    r"sentencepiece|tokenizer|dataset|\bdata\b|config|vocab|processor|index|scheduler|extension|module|pipeline config",
    re.IGNORECASE,
)
_NEXT_WORD = 10
_RESUME = re.compile(
    r"\b(?:resum(?:e|ed|ing)|restor(?:e|ing))\b(?: (?!to\b)[\w]{1,20}){0,5}? (?:from|at)(?: the)?:? "
    r"(?:(?:checkpoint|ckpt|step|iteration|epoch|global step)(?![/\\._-])(?: path)?(?: at)?[ :=]{0,3})?"
    r"['\"]?([\w./\\:~+=-]{1,300})",
    re.IGNORECASE,
)
_PLACE = re.compile(r"[\d/\\]|ckpt|checkpoint|last|latest|best", re.IGNORECASE)
_LOADING_STATES = re.compile(r"\bLoading states from ([^\s'\"]{1,300})")  # accelerate
_INIT = re.compile(
    r"\bBefore creating fp(?:16|32) partitions|\binitiali[sz]ing (?:the )?(?:torch |pytorch )?"
    r"(?:distributed|process group|nccl|deepspeed|fsdp|ddp|torchbackend|communicat\w{1,8})\b|"
    r"\bsharding \S{1,200} with fsdp|"
    r"\bwrapping (?:the )?\S{1,40} (?:with|in) (?:fsdp|ddp|deepspeed)",
    re.IGNORECASE,
)
_TRAIN = re.compile(
    r"\b(?:start(?:ing)?|begin(?:ning)?|running) (?:the )?(?:\w{1,20} )?(?:training|fine-?tuning)\b"
    r"(?! (?:data|set|samples|job))|"
    r"^\W{0,4}training(?: \.\.\.)?\W{0,4}$|\btraining (?:started|starts)\b",
    re.IGNORECASE,
)
_TALK = re.compile(
    r"\b(?:if|when|whenever|because|please|should|could|would|must|use|instead|disable[sd]?|skip\w*|without|before|"
    r"after|not|no|never|failed to|error|unable|cannot|can't|finished|done|completed|every|will|to avoid|warning:)\b"
    r"[^,;:.]{0,60}$",
    re.IGNORECASE,
)
_BAR_PHASES: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("eval", re.compile(r"eval|valid|\bval\b|sanity|test(?:ing)?\b|predict", re.IGNORECASE)),
    ("generate", re.compile(r"generat|rollout|sampling", re.IGNORECASE)),
    (
        "load",
        re.compile(r"loading (?:weights|checkpoint|safetensors|model|pipeline components)", re.IGNORECASE),
    ),
    ("save", re.compile(r"(?:saving|writing) (?:model|checkpoint|shard)", re.IGNORECASE)),
)
_SHARDS = "loading checkpoint shards"


def parse(document: Document) -> list[Fact]:
    """phase_line and resume facts, one line may give several ("save" and then "eval" for a preview)."""
    return _SCANNER.run(document)


def announced(text: str) -> Iterator[tuple[str, str]]:
    """(fact name, value) of every announcement in `text`, in the order in which the phases would follow."""
    if "*****" in text:  # the Trainer's headings are read elsewhere
        return
    resumed = _says(_RESUME, text) or _LOADING_STATES.search(text)
    if resumed:
        value = resumed[1].rstrip(".,;:)'\"")
        if _PLACE.search(value):
            yield "phase_line", "load"
            yield "resume", value
    else:
        load = _says(_LOAD, text)
        if load and not _NOT_WEIGHTS.search(text, load.start(), load.end() + _NEXT_WORD):
            yield "phase_line", "load"
    preview = _says(_PREVIEW, text)
    for value, pattern in (("init", _INIT), ("save", _SAVE), ("train", _TRAIN), ("generate", _GENERATE)):
        if _says(pattern, text) and not (preview and value == "generate"):
            yield "phase_line", value
    if preview or _says(_EVAL, text):
        yield "phase_line", "eval"


def _says(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    """The match, unless the words before it make it talk about a phase instead of announcing it."""
    match = pattern.search(text)
    if match is None:
        return None
    before = text[max(0, match.start() - 70) : match.start()]
    return None if _TALK.search(before) else match


def _read(document: Document, indices: Sequence[int]) -> Iterable[Fact]:
    bars: dict[str, tuple[str, int, int]] = {}
    last: dict[str, str] = {}
    for index in indices:
        line = document.lines[index]
        text = line.text
        if is_failure_text(text.lower()) and "%|" not in text:
            continue
        bar = read_bar(text)
        if bar:
            value = _bar_phase(bar)
            if (
                value == "load"
                and last.get(line.stream) in ("eval", "save")
                and "pipeline" in bar.description.lower()
            ):
                value = ""  # an evaluation that builds its pipeline
            if value and _is_new(bars, line.stream, value, bar):
                last[line.stream] = value
                yield fact(document, index, "phase_line", value)
            text = _behind(text)
        if not text or looks_like_code(document, index):
            continue
        for name, value in announced(text):
            if name == "phase_line":
                last[line.stream] = value
            yield fact(document, index, name, value)


def _bar_phase(bar: Bar) -> str:
    if not bar.description or _SHARDS in bar.description.lower():  # hf_trainer.py reads the shards' bar
        return ""
    for value, pattern in _BAR_PHASES:
        if pattern.search(bar.description):
            return value
    return ""


def _is_new(bars: dict[str, tuple[str, int, int]], stream: str, value: str, bar: Bar) -> bool:
    """False for a bar that only moves on."""
    before = bars.get(stream)
    bars[stream] = (value, bar.done, bar.total)
    return before is None or before[0] != value or before[2] != bar.total or bar.done < before[1]


def _behind(text: str) -> str:
    """What a program printed on the same line behind a bar."""
    at = text.find("]", text.find("%|"))
    return text[at + 1 :] if at > 0 else ""


PRINTER = Printer(
    (
        "%|",
        "validati",
        "validating",
        "evaluati",
        "evaluating",
        "sanity check",
        "predicting",
        "inference",
        "testing",
        "val ",
        "(val)",
        "(test)",
        "sampling",
        "generating",
        "waking up",
        "preview",
        "saving",
        "writing",
        "save checkpoint",
        "save ckpt",
        "save model",
        "load ",
        "loading",
        "reading",
        "building",
        "resum",
        "restor",
        "creating fp",
        "initializing",
        "initialising",
        "sharding",
        "wrapping",
        "training",
        "tuning",
        "rendering",
    ),
    _read,
)
_SCANNER = Scanner((PRINTER,))
