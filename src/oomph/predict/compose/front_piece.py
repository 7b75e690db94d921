"""The template of what comes before the layers: embedding, and what all layers share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from oomph.predict.compose.kept import Kept
from oomph.predict.compose.mode import Mode
from oomph.predict.compose.scopes import scope_of, section
from oomph.predict.compose.setup import Setup
from oomph.predict.engine.asked import Question
from oomph.predict.engine.compiled import numbers, packet
from oomph.predict.engine.piece import Piece, build
from oomph.predict.engine.scope import Scope
from oomph.predict.programs.load import Section


class Left(NamedTuple):
    """A block that Python holds when layers begin: its number, the program's storage, and whether the model's code
    lets go of it before the output layer."""

    block: int
    storage: int
    dropped: bool


@dataclass(frozen=True, eq=False)
class Front:
    """Embedding and what all layers share.

    left: numbers of blocks that Python holds at its end beside the hidden state. held: the hidden state is held until
    the stack of layers has returned. leaf: bytes of the embedding's own output, where the hidden state is another
    tensor.
    """

    piece: Piece
    left: tuple[Left, ...]
    held: bool
    inputs: int
    leaf: int

    @property
    def asked(self) -> tuple[Question, ...]:
        """What was asked about the GPU."""
        return self.piece.asked


def front(setup: Setup, mode: Mode) -> Front:
    """Embedding and what all layers share."""
    return _FRONTS.of(setup, mode)


def _front(inner: Setup, mode: Mode) -> Front:
    scope = scope_of(inner, mode)
    before = section(inner, "before")
    if mode.leaf and not mode.joined:
        scope.leaves = _leaves(inner, before)
    piece = build(scope, before, requires=False)
    variant = inner.program
    dropped = {item[1] for item in section(inner, "after").items if item[0] == "drop"}
    alive = [
        Left(storage.number, number, number in dropped)
        for number, storage in scope.storages.items()
        if storage.number >= 0
        and storage.number not in (piece.out, *piece.casts, *piece.attributes)
        and _is_left(piece, storage.number)
    ]
    assert before.outlet is not None
    exit_storage = variant.tensors[before.outlet][0]
    late = any(
        item[0] == "drop" and item[1] == exit_storage
        for name in ("after", "loss")
        for item in section(inner, name).items
    )
    inputs = sum(scope.values[str(each[1])] for each in variant.storages if each[0] == "input")
    alive = list({each.block: each for each in alive}.values())
    return Front(piece, tuple(alive), late, inputs, _leaf_bytes(scope, before, exit_storage))


_FRONTS = Kept(_front, 4096)


def _leaves(setup: Setup, before: Section) -> frozenset[int]:
    """The output of the tokens' embedding, where what follows before the first layer saves tensors for backward."""
    names = [packet(item[1]) for item in before.items if item[0] == "op"]
    program, weight = setup.program, f"{setup.architecture.embedding}.weight"
    if setup.weight(weight).trainable or not {"aten.native_layer_norm", "aten.native_dropout"} & set(names):
        return frozenset()
    for item in before.items:
        if item[0] == "op" and packet(item[1]) == "aten.embedding":
            table = program.storages[program.tensors[item[2][0]["t"]][0]]
            if table[0] == "parameter" and table[2] == weight:
                return frozenset((item[3][0],))
    return frozenset()


def _leaf_bytes(scope: Scope, before: Section, exit_storage: int) -> int:
    """Bytes of the embedding's own output where it is scaled before the first layer; else 0."""
    for item in before.items:
        if item[0] == "op" and item[1].startswith("aten.embedding"):
            storage = scope.program.tensors[item[3][0]][0]
            return (
                0
                if storage == exit_storage or _scales_itself(scope, before, storage)
                else scope.values[str(scope.program.storages[storage][1])]
            )
    return 0


def _scales_itself(scope: Scope, before: Section, looked_up: int) -> bool:
    """Whether the embedding's module multiplies by a buffer of its own (Gemma's since transformers 5): then what it
    returns is what the first layer takes."""
    program = scope.program
    for item in before.items:
        if item[0] == "op" and item[1].startswith("aten.mul"):
            read = [program.tensors[each][0] for each in numbers(item[2])]
            if looked_up in read:
                return any(program.storages[each][0] == "buffer" for each in read)
    return False


def _is_left(piece: Piece, number: int) -> bool:
    """Whether a block outlives the piece: neither forward frees it nor what backward lets go."""
    backward = () if piece.backward is None else piece.backward.events
    return number in piece.forward.events and ~number not in (*piece.forward.events, *backward)
