"""The size of each alloc of a recipe, from what it was in every run."""

from __future__ import annotations

from collections.abc import Sequence

from oomph.memory.recipe.expression import Argument, Expression, RecipeError, call, name, number
from oomph.memory.recipe.functions import FUNCTIONS
from oomph.tracing.recipes.fit import Fitter
from oomph.tracing.recipes.slots import Played, Site
from oomph.tracing.recipes.stream import Seen, Stream

#: By how many bytes a block of a batch of one may be larger: a label more per sequence that is not cut off.
_MOST_MORE = 8


class Sizing:
    """`runs` are the streams as sites, in the same order. `names` are what sizes may be made of. Runs of one
    sequence have blocks of no bytes where larger batches have some, unless all runs are of one: `names` has no b."""

    def __init__(self, streams: Sequence[Stream], runs: Sequence[Played], names: Sequence[str]) -> None:
        tables = [_table(stream, run) for stream, run in zip(streams, runs, strict=True)]
        several = [stream.dimensions["b"] > 1 or "b" not in names for stream in streams]
        self._dimensions = [stream.dimensions for stream, many in zip(streams, several, strict=True) if many]
        self._tables = [table for table, many in zip(tables, several, strict=True) if many]
        self._singles = [
            (stream.dimensions, table)
            for stream, table, many in zip(streams, tables, several, strict=True)
            if not many
        ]
        self._fitter = Fitter(self._dimensions, names)

    def all(self) -> dict[Site, Expression]:
        """The size of each site. Raises RecipeError for one that is no expression of the dimensions, or that differs
        between layers."""
        return {
            site: self._single(site, self._fit(site, [table[site] for table in self._tables]))
            for site in self._tables[0]
        }

    def _single(self, site: Site, found: Expression) -> Expression:
        """The same for a batch of one too, where the block may be missing."""
        for dimensions, table in self._singles:
            size = table[site].size
            if not size and found.evaluate(dimensions, FUNCTIONS):
                found = call("above", name("b"), number(1), found)
            more = size - found.evaluate(dimensions, FUNCTIONS)
            if 0 < more <= _MOST_MORE:
                found = found + number(more) - call("above", name("b"), number(1), number(more))
            if found.evaluate(dimensions, FUNCTIONS) != size:
                raise RecipeError(
                    f"{site[0]}, entry {site[1]} ({table[site].operator}): {size} bytes for {dict(dimensions)}, where "
                    f"{found} was expected"
                )
        return found

    def _fit(self, site: Site, seen: Sequence[Seen]) -> Expression:
        sizes = tuple(each.size for each in seen)
        found = None
        if all(each.scratch is not None for each in seen):
            found = self._scratch(seen)
        elif all(each.shape is not None for each in seen):
            found = self._fitter.bytes_of([each.shape or () for each in seen], seen[0].itemsize)
        if found is None or not self._gives(found, sizes):
            found = self._fitter.number(sizes)
        if found is None:
            raise RecipeError(
                f"{site[0]}, entry {site[1]} ({seen[0].operator}, {seen[0].label}): no expression of the dimensions "
                f"gives {sizes}; shapes {[each.shape for each in seen]}, scratch {seen[0].scratch}"
            )
        return found

    def _scratch(self, seen: Sequence[Seen]) -> Expression | None:
        """The call that computed it, each number of it as an expression."""
        calls = [each.scratch for each in seen if each.scratch is not None]
        if len({(function, len(arguments)) for function, arguments in calls}) != 1:
            return None
        arguments: list[Argument] = []
        for values in zip(*(each for _, each in calls), strict=True):
            found = self._argument(values)
            if found is None:
                return None
            arguments.append(found)
        return call(calls[0][0], *arguments)

    def _argument(self, values: Sequence[int | tuple[int, ...]]) -> Argument | None:
        whole = tuple(value for value in values if isinstance(value, int))
        if len(whole) == len(values):
            return self._fitter.number(whole)
        lists = [value for value in values if isinstance(value, tuple)]
        if len(lists) != len(values) or len({len(each) for each in lists}) != 1:
            return None
        parts: list[Expression] = []
        for column in zip(*lists, strict=True):
            found = self._fitter.number(tuple(column))
            if found is None:
                return None
            parts.append(found)
        return tuple(parts)

    def _gives(self, expression: Expression, sizes: Sequence[int]) -> bool:
        return all(
            expression.evaluate(dimensions, FUNCTIONS) == size
            for dimensions, size in zip(self._dimensions, sizes, strict=True)
        )


def _table(stream: Stream, run: Played) -> dict[Site, Seen]:
    """What was seen at each site, which must be the same size in every layer and step of a run."""
    table: dict[Site, Seen] = {}
    for site, event in zip(run.sites, run.events, strict=True):
        if event < 0:
            continue
        seen = stream.seen[event]
        before = table.setdefault(site, seen)
        if before.size != seen.size:
            raise RecipeError(
                f"{site[0]}, entry {site[1]} ({seen.operator}): {before.size} and {seen.size} bytes in one run, "
                f"for {dict(stream.dimensions)}"
            )
    return table
