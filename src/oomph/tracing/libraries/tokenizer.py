"""Tokenizers of models that are not on this machine: a stand-in of the right size, with the right special tokens.

It is a real tokenizer of the `tokenizers` library, so padding, truncation, chat templates and collators work on it.
It cuts a text into pieces of four characters, about what tokenizers of English text do, and gives each piece the
same ordinary id: which ids there are does not matter to memory, how many there are does.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from oomph.job import models as known
from oomph.job.models import TokenizerFacts
from oomph.tracing.libraries import during
from oomph.tracing.libraries.hub import ModelNotHereError, is_local

if TYPE_CHECKING:
    from oomph.tracing.recorder.recorder import Recorder

#: Characters in a token of the stand-in.
PIECE = 4
_FILES = (
    "tokenizer.json",
    "tokenizer.model",
    "vocab.json",
    "vocab.txt",
    "spiece.model",
    "sentencepiece.bpe.model",
    "tekken.json",
)
_CHAT = (
    "{% for message in messages %}"
    "{{ '<|' + message['role'] + '|>\n' }}"
    "{% if message['role'] == 'assistant' %}"
    "{% generation %}{{ message['content'] + eos_token }}{% endgeneration %}"
    "{% else %}{{ message['content'] + eos_token }}{% endif %}"
    "{{ '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}"
)


def install(recorder: Recorder) -> None:
    """`from_pretrained` of tokenizers gives a stand-in where the tokenizer's files are not here."""

    def wrap(module: ModuleType, name: str) -> None:
        owner = getattr(module, name, None)
        if owner is None:
            return
        inner = vars(owner)["from_pretrained"].__func__
        around = during.function(recorder, inner, functools.partial(_load, recorder))
        recorder.patches.set(owner, "from_pretrained", classmethod(around))

    recorder.patches.when_imported(
        "transformers.models.auto.tokenization_auto", lambda module: wrap(module, "AutoTokenizer")
    )
    recorder.patches.when_imported(
        "transformers.tokenization_utils_base", lambda module: wrap(module, "PreTrainedTokenizerBase")
    )


def _load(
    recorder: Recorder, inner: Callable[..., Any], cls: Any, path: Any, *args: Any, **kwargs: Any
) -> Any:
    """The real tokenizer where its files are here, else the stand-in."""
    name = str(path)
    part = kwargs.get("subfolder") or ""
    if _is_here(name, part) or kwargs.get("gguf_file"):
        return inner(cls, path, *args, **kwargs)
    facts, longest = _facts(f"{name}/{part}" if part else name)
    if facts is None:
        if is_local(name):
            return inner(cls, path, *args, **kwargs)
        raise ModelNotHereError(name)
    recorder.assume(
        f"the tokenizer of {name} is not on this machine: a stand-in makes one token of every {PIECE} characters, "
        f"with {facts.length} tokens in all; lengths of texts decide memory, so put the real tokenizer's files "
        "there for exact ones"
    )
    return build(facts, longest, name, **kwargs)


def _is_here(name: str, part: str) -> bool:
    """Whether a tokenizer's files are in the local folder, or in the local cache."""
    place = Path(name) / part
    if place.is_dir():
        return any((place / file).is_file() for file in _FILES)
    if place.is_file():
        return True
    from transformers.utils.hub import cached_file

    quiet = {
        "_raise_exceptions_for_gated_repo": False,
        "_raise_exceptions_for_missing_entries": False,
        "_raise_exceptions_for_connection_errors": False,
    }
    return any(cached_file(name, file, local_files_only=True, subfolder=part, **quiet) for file in _FILES)


def _facts(name: str) -> tuple[TokenizerFacts | None, int | None]:
    """What is known of the tokenizer, and the model's longest input."""
    model = known.find(name)
    if model is not None and model.tokenizer is not None:
        return model.tokenizer, longest_input(model.config)
    path = Path(name) / "config.json"
    if model is not None:
        config = model.config
    elif path.is_file():
        config = json.loads(path.read_text(encoding="utf-8"))
    else:
        return None, None
    size = config.get("vocab_size")
    if not isinstance(size, int):
        return None, longest_input(config) if model is not None else None
    ids: dict[str, Any] = {key: _one(config.get(f"{key}_token_id")) for key in ("bos", "eos", "pad")}
    texts = {"bos": "<s>", "eos": "</s>", "pad": "<pad>"}
    tokens = {texts[key]: number for key, number in ids.items() if number is not None}
    return TokenizerFacts(length=size, tokens=tokens, **ids), longest_input(config)


def _one(number: Any) -> int | None:
    """An id; some configurations list several ends of a text."""
    if isinstance(number, list):
        number = number[0] if number else None
    return number if isinstance(number, int) and number >= 0 else None


def longest_input(config: dict[str, Any]) -> int | None:
    """The model's longest input in tokens, as its configuration says."""
    for key in ("n_positions", "max_position_embeddings", "n_ctx", "max_seq_len"):
        if isinstance(config.get(key), int):
            # RoBERTa counts its padding offset among the positions.
            return int(config[key]) - (2 if config.get("model_type") == "roberta" else 0)
    return None


def build(facts: TokenizerFacts, longest: int | None, name: str, **kwargs: Any) -> Any:
    """A tokenizer of transformers with these facts. `kwargs` are those of `from_pretrained`."""
    from transformers import PreTrainedTokenizerFast

    texts = {
        key: facts.text_of(getattr(facts, key)) for key in ("bos", "eos", "pad", "unk", "cls", "sep", "mask")
    }
    given = {f"{key}_token": text for key, text in texts.items() if text is not None}
    for key in ("padding_side", "truncation_side", "model_max_length", *(f"{key}_token" for key in texts)):
        if kwargs.get(key) is not None:
            given[key] = kwargs[key]
    if longest is not None:
        given.setdefault("model_max_length", longest)  # type: ignore[arg-type]
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=_backend(facts, texts),
        clean_up_tokenization_spaces=False,
        name_or_path=name,
        **given,
    )
    if "[CLS]" in facts.tokens and "distil" not in name:
        tokenizer.model_input_names = ["input_ids", "token_type_ids", "attention_mask"]
    if facts.chat:
        tokenizer.chat_template = _CHAT
    return tokenizer


def _backend(facts: TokenizerFacts, texts: dict[str, str | None]) -> Any:
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors

    special = dict(facts.tokens)
    for key, text in texts.items():
        number = getattr(facts, key)
        if text is not None and number is not None:
            special.setdefault(text, number)
    taken = set(special.values())
    vocabulary = {f"token{number}": number for number in range(facts.length) if number not in taken}
    vocabulary.update(special)
    # Any ordinary token will do for the pieces; it must not be a special one, which collators leave out.
    piece = next(
        text for text, number in vocabulary.items() if number >= facts.length // 2 and number not in taken
    )
    backend = Tokenizer(models.WordLevel(vocab=vocabulary, unk_token=piece))
    backend.pre_tokenizer = pre_tokenizers.Split(Regex(rf"[\s\S]{{1,{PIECE}}}"), "isolated")
    backend.decoder = decoders.Fuse()
    backend.add_special_tokens(sorted(special))
    around = _around(facts)
    if around is not None:
        single, pair, names = around
        backend.post_processor = processors.TemplateProcessing(
            single=single, pair=pair, special_tokens=[(text, special[text]) for text in names]
        )
    return backend


def _around(facts: TokenizerFacts) -> tuple[str, str, list[str]] | None:
    """What the tokenizer puts around one text, and around two."""
    if facts.adds == "bos":
        bos = facts.text_of(facts.bos) or ""
        return f"{bos} $A", f"{bos} $A {bos}:1 $B:1", [bos]
    if facts.adds == "eos":
        eos = facts.text_of(facts.eos) or ""
        return f"$A {eos}", f"$A {eos} $B:1 {eos}:1", [eos]
    if facts.adds == "cls":
        cls, sep = facts.text_of(facts.cls) or "", facts.text_of(facts.sep) or ""
        return f"{cls} $A {sep}", f"{cls} $A {sep} $B:1 {sep}:1", [cls, sep]
    return None
