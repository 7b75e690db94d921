"""Generation with a cache of keys and values: the pass over the prompt, and the last new token.

Sources: transformers/generation/utils.py (_prefill, _sample, _beam_search: the last position's logits are copied to
fp32 while those of the token before are still named), cache_utils.py (DynamicLayer.update: keys grow by torch.cat, then
values; reorder_cache copies them in the same way). docs/terms/evaluation.md.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from oomph.job.model import Job
from oomph.memory.categories import Category
from oomph.phases import Phase
from oomph.predict.compose import pieces
from oomph.predict.compose.cache import Cache
from oomph.predict.compose.choice import window
from oomph.predict.compose.inference import NO_GRAD, Pass
from oomph.predict.compose.last_position import LastPosition, last_position
from oomph.predict.compose.masks import has_padding
from oomph.predict.compose.setup import Setup
from oomph.predict.compose.units import Units
from oomph.predict.frameworks.versions import below
from oomph.predict.sharding.base import Sharding
from oomph.predict.sink import Sink

#: Classes that took `num_logits_to_keep` when `generate` began to ask for it, in 4.45 (transformers' pull request
#: 31292); the others followed before 5.
_EARLY = frozenset(
    (
        "llama",
        "mistral",
        "mixtral",
        "qwen2",
        "qwen2_moe",
        "gemma",
        "gemma2",
        "cohere",
        "phi",
        "phi3",
        "olmo",
        "olmo2",
        "olmoe",
        "stablelm",
        "starcoder2",
        "granite",
        "nemotron",
    )
)
_NAME = re.compile(r"[a-z_]+")


def makes_all_logits(job: Job) -> bool:
    """Whether the pass over the prompt makes the logits of every position, of which the last is used."""
    if below(job.framework, "transformers", 4, 45) is True:
        return True
    return below(job.framework, "transformers", 5, 0) is True and job.model.family not in _EARLY


def positions_bytes(setup: Setup) -> int:
    """What positions take beside those of training: `generate` has a row of them for each sequence, in 8 bytes, and
    what all layers share of them (cosines and sines) is made for each row."""
    program, rows = setup.program, setup.dims["b"]
    front = pieces.front(setup, NO_GRAD)
    shared = sum(
        front.piece.forward.sizes[each.block]
        for each in front.left
        if "b" not in _NAME.findall(str(program.storages[each.storage][1]))
    )
    return 8 * rows * setup.dims["s"] + (rows - 1) * shared


def copies(setup: Setup) -> int:
    """How many times a layer's keys and values are copied while attention reads them: once for each head of a group
    where attention is eager, or has a mask for padding (integrations/sdpa_attention.py, use_gqa_in_sdpa); flash-attn
    has a copy without the padded tokens (modeling_flash_attention_utils.py, _upad_input)."""
    groups = setup.dims.get("groups", 1)
    masked = has_padding(setup.job)
    if setup.attention == "flash_attention_2":
        return int(masked)
    return groups if groups > 1 and (masked or setup.attention == "eager") else 0


def with_batch(setup: Setup, rows: int, tokens: int) -> Setup:
    """The same model with another batch. (A single token has no padding.)"""
    padding = "off" if tokens == 1 else setup.job.batch.padding
    batch = msgspec.structs.replace(setup.job.batch, micro=rows, sequence=tokens, padding=padding)
    return Setup(msgspec.structs.replace(setup.job, batch=batch), setup.code, setup.gpu, setup.torch)


@dataclass
class Generation:
    """`rows` sequences (samples, times beams) with prompts of `prompt` tokens and `new` tokens after them. `setup` is
    the model in evaluation. `chosen`: how the next token is: the most likely, drawn, or of beams."""

    sink: Sink
    setup: Setup
    sharding: Sharding
    units: Units
    rows: int
    prompt: int
    new: int
    chosen: str = "greedy"
    _cache: list[int] = field(default_factory=list)
    _scores: list[int] = field(default_factory=list)

    def run(self) -> None:
        """Both passes. Between them the cache has grown by a token at a time, and nothing else."""
        ids = self.sink.alloc(
            2 * 8 * self.rows * (self.prompt + self.new), Category.ACTIVATIONS, "tokens and mask"
        )
        self._prompt()
        if self.new > 1:
            self._last_token()
        self._let_go(self._scores)
        self.sink.free(ids)

    def _prompt(self) -> None:
        sink, setup = self.sink, with_batch(self.setup, self.rows, self.prompt)
        cache = Cache(setup)
        size = [cache.keys_bytes(self.rows, self.prompt), cache.values_bytes(self.rows, self.prompt)]

        def fills(_layer: int) -> None:
            names = ("keys (cache)", "values (cache)")
            self._cache += [
                sink.alloc(each, Category.ACTIVATIONS, name) for each, name in zip(size, names, strict=True)
            ]

        turns = sink.alloc(positions_bytes(setup), Category.ACTIVATIONS, "positions of each sequence")
        self._pass(setup, "the prompt").run(self._choose_after(setup), fills)
        sink.free(turns)
        self._let_go(self._cache)

    def _last_token(self) -> None:
        sink, setup = self.sink, with_batch(self.setup, self.rows, 1)
        cache = Cache(setup)
        limit = window(setup.job.model)
        for layer in range(setup.layers):
            # The last token that is generated is read by nobody.
            tokens = self.prompt + self.new - 1
            if limit is not None and cache.slides(layer):
                tokens = min(tokens, limit)
            sizes = (cache.keys_bytes(self.rows, tokens), cache.values_bytes(self.rows, tokens))
            self._cache += [
                sink.alloc(each, Category.ACTIVATIONS, name)
                for each, name in zip(sizes, ("keys (cache)", "values (cache)"), strict=True)
            ]
        tokens = self.prompt + self.new - 1
        both = cache.keys_bytes(self.rows, tokens), cache.values_bytes(self.rows, tokens)
        read = copies(self.setup) * sum(both)

        def grows(_layer: int) -> None:
            growing, repeated = "keys or values of a layer as they grow", "repeated keys and values"
            for size, name in ((max(both), growing), (read, repeated)):
                sink.free(sink.alloc(size, Category.TEMPORARIES, name))

        self._pass(setup, "the last new token").run(self._choose_after(setup), grows)
        self._let_go(self._cache)

    def _pass(self, setup: Setup, name: str) -> Pass:
        return Pass(self.sink, setup, self.sharding, self.units, Phase.GENERATE, name)

    def _choose_after(self, setup: Setup) -> _Choosing:
        return _Choosing(self, last_position(setup, all_positions=makes_all_logits(setup.job)))

    def choose(self, logits: int, size_bytes: int) -> None:
        """The next token: fp32 copies of the logits and what is made of them, beside those of the token before."""
        sink = self.sink
        sink.phase(Phase.GENERATE, "the next token is chosen")
        wide = 4 * self.rows * self.setup.dims.get("vocab", 0)
        if self.setup.code.outputs_to_fp32 and size_bytes < wide:
            cast = sink.alloc(wide, Category.TEMPORARIES, "logits of the last position")
            sink.free(logits)
            logits = cast
        if not self._scores:
            # The first token has no predecessor; what is made of its logits takes what the predecessor's would.
            self._scores = [
                sink.alloc(wide, Category.TEMPORARIES, "scores of the token before")
                for _ in range(1 if self.chosen == "greedy" else 2)
            ]
        new = sink.alloc(wide, Category.TEMPORARIES, "logits of the last position in fp32")
        sink.free(new)
        sink.free(logits)

    def _let_go(self, handles: list[int]) -> None:
        for handle in handles:
            self.sink.free(handle)
        handles.clear()


@dataclass
class _Choosing:
    """The end of a pass: norm and logits, then the choice."""

    generation: Generation
    end: LastPosition

    def __call__(self, hidden: int) -> Sequence[int]:
        its = self.generation
        logits = self.end.play(its.sink, hidden)
        its.choose(logits, self.end.logits_bytes)
        return ()
