"""A batch of one sequence: some tensors are contiguous then that are not in larger batches, and are not copied."""

from __future__ import annotations

from dataclasses import replace

from oomph.memory.recipe.expression import RecipeError
from oomph.tracing.recipes.stream import Seen, Stream


def filled(single: Stream, model: Stream) -> Stream:
    """The run of a batch of one, with a block of no bytes for each that `model` has and it has not. Where larger
    batches copy a block and then free it, the one block stands for the copy. `model` is a run of as many layers and at
    least as many steps with a larger batch.

    Raises RecipeError where they differ by anything else than blocks that are missing.
    """
    return _Filler(single, model).stream()


class _Filler:
    def __init__(self, single: Stream, model: Stream) -> None:
        self.single, self.model = single, model
        self.result = Stream(single.dimensions, doubt=single.doubt)
        self.numbers: dict[int, int] = {}  # of the single run's blocks, by those of the model
        self.new: dict[int, int] = {}  # of the result's blocks, by those of the model

    def stream(self) -> Stream:
        for cut in self.single.cuts:
            other = self.model.part(cut.section, cut.round)
            if other is None:
                raise RecipeError(f"larger batches have no {cut.section} in round {cut.round}")
            place = cut.begin
            for event in self.model.events[other.begin : other.end]:
                place += self._step(event, place, cut.end)
            if place != cut.end:
                raise RecipeError(f"a batch of one does more in {cut.section} than larger ones")
            self.result.cut(cut.section, cut.phase)
        return self.result

    def _step(self, event: int, place: int, end: int) -> int:
        """One event of the model; how many of the single run's it stands for."""
        here = self.single.events[place] if place < end else None
        if event < 0:
            self.result.free(self.new[~event])
            if ~event not in self.numbers:
                return 0
            if here == ~self.numbers[~event]:
                return 1
            self._pass_on(~event, place)
            return 0
        if here is not None and here >= 0 and _alike(self.single.seen[here], self.model.seen[event]):
            self.numbers[event] = here
            self.new[event] = self.result.alloc(self.single.seen[here])
            return 1
        self.new[event] = self.result.alloc(replace(self.model.seen[event], size=0, shape=None, scratch=None))
        return 0

    def _pass_on(self, block: int, place: int) -> None:
        """What larger batches copy and free, a batch of one keeps instead of the copy: it is that block then."""
        copy = block + 1
        if copy not in self.new or copy in self.numbers:
            raise RecipeError(f"a batch of one frees in another order than larger ones, at event {place}")
        mine = self.numbers[copy] = self.numbers.pop(block)
        seen = self.single.seen[mine]
        self.result.seen[self.new[copy]] = replace(seen, operator=self.model.seen[copy].operator)
        self.result.seen[self.new[block]] = replace(seen, size=0, shape=None)


def _alike(one: Seen, two: Seen) -> bool:
    return (one.operator, one.hold, one.itemsize) == (two.operator, two.hold, two.itemsize)
