"""Expressions of a program, evaluated for one job."""

from __future__ import annotations

from collections.abc import Mapping

from oomph.predict.engine.expression import evaluate
from oomph.predict.programs.load import Program


class Values(dict[str, int]):
    """Expressions evaluated when they are first asked for."""

    def __init__(self, dimensions: Mapping[str, int]) -> None:
        super().__init__()
        self._dimensions = dimensions

    def __missing__(self, text: str) -> int:
        value = evaluate(text, self._dimensions)
        self[text] = value
        return value


_VIEWS = frozenset(
    ("aten.t", "aten.transpose", "aten.permute", "aten.view", "aten._unsafe_view", "aten.unsqueeze")
)


def with_views(program: Program) -> Program:
    """The program in which every view lies in what it is a view of. A recording of weights that are wrapped (quantised
    or low-rank modules' own tensors) may not have seen that."""
    gone: set[int] = set()
    for section in program.sections.values():
        for item in section.items:
            if item[0] != "op" or ".".join(item[1].split(".")[:2]) not in _VIEWS:
                continue
            source = item[2][0].get("t") if isinstance(item[2][0], dict) else None
            if source is None or item[3][0] is None:
                continue
            storage, made = program.tensors[source][0], program.tensors[item[3][0]][0]
            if storage != made:
                gone.add(made)
                for tensor in program.tensors:
                    if tensor[0] == made:
                        tensor[0] = storage
    for section in program.sections.values():
        section.items[:] = [item for item in section.items if item[0] != "drop" or item[1] not in gone]
    return program
