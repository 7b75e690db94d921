"""A program as one of several tensor-parallel ranks runs it, with the sequence divided too or not.

Weights of attention and feed-forward network are divided by outputs (columns of the product) or by inputs (rows). What
is between two such products has a part of the heads or of the inner width; what a row-wise product makes is one of the
terms of a sum. With sequence parallelism, norms and the residual stream have a part of the tokens: what goes into
column-wise products is gathered first, what row-wise ones make is reduced and scattered.

Sources: torch/distributed/tensor/parallel/style.py, placement_types.py (Shard._to_replicate_tensor, Partial),
_functional_collectives.py; torchtitan/models/llama3/infra/parallelize.py (apply_tp). docs/terms/tensor-parallel.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from oomph.errors import UsageError
from oomph.predict.engine.compiled import numbers, packet
from oomph.predict.engine.splitting import Layout, Part, divided, scaled, shrink
from oomph.predict.programs.load import Program, Section

GATHER, SCATTER, SUM, ENTER = "oomph.all_gather", "oomph.reduce_scatter", "oomph.all_reduce", "oomph.enter"
EMBEDDING = "oomph.vocab_embedding"
_ROWS = frozenset(("o_proj", "down_proj", "wo", "w2", "output_proj"))
_EMBEDDINGS = frozenset(("embed_tokens", "tok_embeddings", "wte"))
_HEADS = frozenset(("lm_head", "output"))
_PRODUCTS = frozenset(("aten.mm", "aten.addmm"))
_RESHAPES = frozenset(("aten.view", "aten._unsafe_view", "aten.reshape"))
_SAME_WEIGHT = frozenset(("aten.t", "aten.transpose", "aten._to_copy", "aten.detach"))
_WHOLE = Layout()


@dataclass(frozen=True)
class Split:
    """ranks: of the tensor-parallel group. sequence: norms and residuals have a part of the tokens. embedding, head:
    those are divided by the vocabulary. parallel_loss: logits stay divided. sums: a sum over ranks is a new tensor (as
    DTensor's is; False: it is made in place). cuts_gradient: the embedding's gradient, which is made whole, is divided
    at once (FSDP2); else it stays whole until the optimizer takes its part."""

    ranks: int
    sequence: bool = False
    embedding: bool = False
    head: bool = False
    parallel_loss: bool = False
    sums: bool = True
    cuts_gradient: bool = False

    def axis(self, name: str) -> int | None:
        """Which dimension of a parameter is divided, by its name: 0 outputs, 1 inputs, None: none."""
        module, _, kind = name.rpartition(".")
        last = module.rpartition(".")[2]
        if kind not in ("weight", "bias") or "norm" in last:
            return None
        if last in _EMBEDDINGS:
            return 0 if self.embedding else None
        if last in _HEADS:
            return 0 if self.head else None
        if last in _ROWS:
            return 1 if kind == "weight" else None
        return 0


def divide(program: Program, split: Split) -> Program:
    """The program of one rank. Raises UsageError, beginning with "unsupported:", where an operator meets tensors that
    are divided in different ways."""
    return _Divided(program, split).program()


class _Divided:
    """The work of `divide`. Tensors and storages that are added get numbers after the program's own."""

    def __init__(self, program: Program, split: Split) -> None:
        self.old = program
        self.split = split
        self.storages = [list(each) for each in program.storages]
        self.tensors = [list(each) for each in program.tensors]
        self.layouts: dict[int, Layout] = {}
        #: Of a tensor with a part of the tokens, the gathered one; of a storage, those that go with it.
        self.gathered: dict[int, int] = {}
        self.companions: dict[int, list[int]] = {}
        #: Of a tensor that is to be what all ranks' terms make, the term that is made here.
        self.terms: dict[int, int] = {}
        #: What a flattened tensor is multiplied by: the divided dimension of a weight, None for a whole one.
        self.feeds: dict[int, int | None] = {}
        self.read_by: dict[int, str] = {}

    def program(self) -> Program:
        """All sections in order."""
        for section in self.old.sections.values():
            self._look(section)
        sections = {name: self._section(name, each) for name, each in self.old.sections.items()}
        sized: set[int] = set()
        for number, layout in self.layouts.items():
            self._shrink(number, layout, sized)
        return Program(self.storages, self.tensors, sections, self.old.kept)

    def _look(self, section: Section) -> None:
        """How weights are divided, and what is multiplied by them."""
        for item in section.items:
            if item[0] != "op":
                continue
            name, inputs = packet(item[1]), numbers(item[2])
            for each in inputs:
                self._parameter(each)
                self.read_by.setdefault(each, name)
            if name in _SAME_WEIGHT and self._is_weight(inputs[0]):
                axis = self.layouts[inputs[0]].axis
                turned = name in ("aten.t", "aten.transpose")
                self.layouts[item[3][0]] = Layout(Part.WEIGHT, 1 - axis if turned else axis)
            elif name in _PRODUCTS and len(inputs) > 1:
                # The weight is transposed: its outputs are columns of the product.
                right = self.layouts.get(inputs[-1], _WHOLE)
                self.feeds[inputs[-2]] = 1 - right.axis if right.part is Part.WEIGHT else None

    def _parameter(self, number: int) -> None:
        storage, shape = self.old.tensors[number][:2]
        kind, _, *name = self.old.storages[storage]
        if kind != "parameter" or number in self.layouts or not shape:
            return
        axis = self.split.axis(name[0])
        if axis is not None:
            self.layouts[number] = Layout(Part.WEIGHT, axis if len(shape) > 1 else 0)

    def _is_weight(self, number: int) -> bool:
        return self.layouts.get(number, _WHOLE).part is Part.WEIGHT

    def part(self, number: int) -> Part:
        """What this rank has of a tensor; of what nobody made here, all."""
        return self.layouts.get(number, _WHOLE).part

    def _section(self, name: str, section: Section) -> Section:
        if section.inlet is not None:
            self.layouts[section.inlet] = Layout(self._inlet(name))
        items: list[list[Any]] = []
        for item in section.items:
            if item[0] == "op":
                items += self._operator(list(item))
            else:
                items.append(item)
                if item[0] != "link":
                    items += [[item[0], each] for each in self.companions.get(item[1], ())]
        return Section(items, section.inlet, section.outlet)

    def _inlet(self, name: str) -> Part:
        if name.startswith("loss"):
            return Part.VOCABULARY if self.split.head and self.split.parallel_loss else Part.WHOLE
        return Part.TOKENS if self.split.sequence else Part.WHOLE

    def _operator(self, item: list[Any]) -> list[list[Any]]:
        name, inputs = packet(item[1]), numbers(item[2])
        if name == "aten.embedding" and self._is_weight(inputs[0]):
            return self._embedding(item)
        if name in _SAME_WEIGHT and self._is_weight(inputs[0]):
            return [item]
        if name in _PRODUCTS and self._is_weight(inputs[-1]):
            return self._product(item, inputs)
        if name in _RESHAPES and inputs[0] in self.terms:
            return self._reduced(item, inputs[0])
        before = []
        if name in _RESHAPES and item[3][0] in self.feeds:
            before = self._entering(item, inputs[0], self.feeds[item[3][0]])
            inputs = numbers(item[2])
        self._follow(item, name, inputs)
        return [*before, item]

    def _follow(self, item: list[Any], name: str, inputs: Sequence[int]) -> None:
        """Results are divided as arguments are."""
        parts = {self.part(each) for each in inputs} - {Part.WHOLE, Part.WEIGHT}
        if len(parts) > 1:
            self._refuse(name)
        part = parts.pop() if parts else Part.WHOLE
        for each in item[3]:
            if each is not None:
                self.layouts[each] = Layout(part)

    def _refuse(self, name: str) -> None:
        raise UsageError(
            f"unsupported: {name} of what tensor parallelism divides in several ways; `oomph trace` runs the training "
            "script itself."
        )

    # -- products ---------------------------------------------------------------------------------------------------

    def _product(self, item: list[Any], inputs: Sequence[int]) -> list[list[Any]]:
        result = item[3][0]
        by_rows = self.layouts[inputs[-1]].axis == 0
        if self.part(inputs[-2]) is not (Part.WIDTH if by_rows else Part.WHOLE):
            self._refuse(packet(item[1]))
        vocabulary = "vocab" in self.old.tensors[result][1]
        part = Part.WHOLE if by_rows else Part.VOCABULARY if vocabulary else Part.WIDTH
        stays = part is Part.WIDTH or (vocabulary and self.split.parallel_loss)
        if stays or (by_rows and not self.split.sums and not self.split.sequence):
            self.layouts[result] = Layout(part)
            return [item]
        term = self._copy(result, part)
        self.terms[result] = term
        made = [*item[:3], [term], *item[4:]]
        return [made] if self.read_by.get(result) in _RESHAPES else [made, *self._collective(result, term)]

    def _reduced(self, item: list[Any], source: int) -> list[list[Any]]:
        """The result of a product in its shape, and then what all ranks make of it."""
        result = item[3][0]
        term = self.terms[source]
        part = self.part(term)
        seen = self._copy(result, part, self.tensors[term][0])
        return [
            [*item[:2], [{"t": term}, *item[2][1:]], [seen], *item[4:]],
            *self._collective(result, seen),
        ]

    def _embedding(self, item: list[Any]) -> list[list[Any]]:
        result, (weight, indices) = item[3][0], numbers(item[2])[:2]
        if self.split.cuts_gradient:
            item = ["op", EMBEDDING, [{"t": weight}, {"t": indices}, self.split.ranks], item[3]]
        else:
            self.layouts[weight] = _WHOLE
        term = self._copy(result, Part.WHOLE)
        return [[*item[:3], [term], *item[4:]], *self._collective(result, term)]

    # -- collectives ------------------------------------------------------------------------------------------------

    def _collective(self, result: int, term: int) -> list[list[Any]]:
        """From what one rank made to what it goes on with: all logits, its tokens of the sum, or the sum."""
        vocabulary = self.part(term) is Part.VOCABULARY
        tokens = self.split.sequence and not vocabulary
        self.layouts[result] = Layout(Part.TOKENS if tokens else Part.WHOLE)
        name = GATHER if vocabulary else SCATTER if tokens else SUM
        arguments = [{"t": term}, self.split.ranks, "last" if vocabulary else "tokens"]
        return [["op", name, arguments, [result]], ["drop", self.tensors[term][0]]]

    def _entering(self, item: list[Any], source: int, axis: int | None) -> list[list[Any]]:
        """What a product reads that is divided by outputs, or whole: all tokens. Without sequence parallelism nothing
        happens in forward, and in backward the gradient is summed."""
        if axis == 1 or self.part(source) in (Part.WIDTH, Part.VOCABULARY):
            return []
        tokens = self.part(source) is Part.TOKENS
        if not tokens and (axis is None or not self.split.sums):
            return []
        found = self.gathered.get(source)
        before: list[list[Any]] = []
        if found is None:
            storage = self.old.tensors[source][0]
            found = self._copy(source, Part.WHOLE, None if tokens else storage)
            if tokens:
                self.gathered[source] = found
                self.companions.setdefault(storage, []).append(self.tensors[found][0])
            arguments = [{"t": source}, self.split.ranks, "tokens"]
            before = [["op", GATHER if tokens else ENTER, arguments, [found]]]
        item[2] = [{"t": found}, *item[2][1:]]
        self.tensors[item[3][0]][0] = self.tensors[found][0]
        return before

    def _copy(self, number: int, part: Part, storage: int | None = None) -> int:
        """Another tensor of the same (undivided) shape; on a storage of its own unless one is given."""
        _, shape, strides, dtype = self.old.tensors[number]
        if storage is None:
            size = self.old.storages[self.old.tensors[number][0]][1]
            storage = len(self.storages)
            self.storages.append(["own", scaled(size, part, self.split.ranks)])
        made = len(self.tensors)
        self.tensors.append(shrink([storage, shape, strides, dtype], Layout(part), self.split.ranks))
        self.layouts[made] = Layout(part)
        return made

    def _shrink(self, number: int, layout: Layout, sized: set[int]) -> None:
        """A tensor of the program, and the storage that it was made on."""
        if number >= len(self.old.tensors) or layout.part is Part.WHOLE:
            return
        ranks = self.split.ranks
        self.tensors[number] = shrink(self.old.tensors[number], layout, ranks)
        storage = self.old.tensors[number][0]
        if storage in sized:
            return
        sized.add(storage)
        size = str(self.old.storages[storage][1])
        weight = layout.part is Part.WEIGHT
        self.storages[storage][1] = divided(size, ranks) if weight else scaled(size, layout.part, ranks)
