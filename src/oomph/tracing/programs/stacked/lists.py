"""A batch that is taken apart and put together again: `list(features)` and `torch.cat` of that list name as many
tensors as the batch has samples. A program has one in their place, as large as all of them: what is allocated is the
same, in backward too (the gradients of all are stacked)."""

from __future__ import annotations

from typing import Any

from oomph.tracing.programs.stacked.cut import numbers
from oomph.tracing.programs.watch import Op, Ref, Run, Tensor

_UNBIND, _CAT = "aten.unbind.int", "aten.cat.default"


def together(run: Run) -> None:
    """Changes the run. What else reads one of the tensors keeps the list as it is."""
    readers: dict[int, list[Op]] = {}
    for item in run.items:
        if isinstance(item, Op):
            for number in numbers(item):
                readers.setdefault(number, []).append(item)
    for item in run.items:
        if isinstance(item, Op) and item.name == _UNBIND and len(item.results) > 1:
            made = [each for each in item.results if each is not None]
            ends = {id(op) for each in made for op in readers[each] if op is not item}
            cats = [op for each in made for op in readers[each] if op.name == _CAT]
            if len(ends) == 1 and cats and id(cats[0]) in ends and _all(cats[0], made):
                _join(run, item, cats[0], made)


def _all(cat: Op, made: list[int]) -> bool:
    """Whether these are what is put together."""
    parts: Any = cat.args[0]
    return isinstance(parts, list) and [each.number for each in parts if isinstance(each, Ref)] == made


def _join(run: Run, unbind: Op, cat: Op, made: list[int]) -> None:
    source = run.tensors[unbind.args[0].number]
    run.tensors[made[0]] = Tensor(source.storage, source.shape, source.strides, source.dtype)
    unbind.results = [made[0]]
    cat.args = [[Ref(made[0])], *cat.args[1:]]
