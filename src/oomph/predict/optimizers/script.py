"""Writing down what a step allocates, as PyTorch's Python code would: a template, made once per set of parameters."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from oomph.memory.categories import Category
from oomph.predict.sharding.base import UnitParameter
from oomph.predict.sink import Sink, Template, rounded

STATE = Category.OPTIMIZER_STATE
TEMPORARY = Category.TEMPORARIES
#: Bytes of a 0-dimensional fp32 tensor, before rounding.
SCALAR = 4


class Script:
    """Allocations and frees in order, and the highest level that they reach."""

    def __init__(self) -> None:
        self._events: list[int] = []
        self._sizes: list[int] = []
        self._labels: list[tuple[Category, str]] = []
        self._level = 0
        self._peak = 0
        self._peak_event = 0

    def alloc(self, size_bytes: float, category: Category, name: str) -> int:
        """A block of so many bytes (rounded up as the allocator does). Returns its number."""
        number, size = len(self._sizes), rounded(int(size_bytes))
        self._sizes.append(size)
        self._labels.append((category, name))
        self._events.append(number)
        self._level += size
        if self._level > self._peak:
            self._peak, self._peak_event = self._level, len(self._events) - 1
        return number

    def each(self, sizes_bytes: Iterable[float], category: Category, name: str) -> list[int]:
        """One block for each size."""
        return [self.alloc(size, category, name) for size in sizes_bytes]

    def free(self, blocks: Iterable[int]) -> None:
        """Frees blocks of this script."""
        for number in blocks:
            self._events.append(~number)
            self._level -= self._sizes[number]

    def template(self) -> Template:
        """What was written so far."""
        return Template(
            events=tuple(self._events),
            sizes=tuple(self._sizes),
            labels=tuple(self._labels),
            first_own=0,
            peak=self._peak,
            net=self._level,
            peak_event=self._peak_event,
        )


class Frame:
    """The local variables of a Python function: a name that is bound anew frees what it held, after the new value is
    there. Several names may hold the same blocks."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._held: dict[str, tuple[int, ...]] = {}

    def bind(self, name: str, blocks: Sequence[int] = ()) -> None:
        """`name = <a value in these blocks>`; without blocks: a value that owns no memory of the step."""
        old = self._held.pop(name, ())
        if blocks:
            self._held[name] = tuple(blocks)
        kept = {block for held in self._held.values() for block in held}
        self._script.free(block for block in old if block not in kept)

    def also(self, name: str, other: str) -> None:
        """`name = other`."""
        self.bind(name, self._held.get(other, ()))

    def close(self) -> None:
        """The function returns."""
        for name in tuple(self._held):
            self.bind(name)


def trainable(parameters: Sequence[UnitParameter]) -> list[UnitParameter]:
    """The parameters that have a gradient."""
    return [each for each in parameters if each.trainable]


def by_dtype(parameters: Sequence[UnitParameter]) -> list[list[UnitParameter]]:
    """The parameters in groups of one dtype (torch.optim's `_group_tensors_by_device_and_dtype`; dtypes of one size
    cannot be told apart here and are taken as one). The last dtype to appear comes first: the groups come out of a
    std::unordered_map, whose newest entry leads (libstdc++, as PyTorch is built for Linux)."""
    groups: dict[float, list[UnitParameter]] = {}
    for each in parameters:
        groups.setdefault(each.weight_bytes, []).append(each)
    return list(groups.values())[::-1]


@dataclass
class ScriptedStepper:
    """A stepper whose step is a template. Subclasses write it in `write`."""

    in_backward: bool = False
    on_host: bool = False
    name: str = ""
    assumptions: tuple[str, ...] = ()
    _key: str = field(default="", repr=False, compare=False)

    def write(self, script: Script, parameters: list[UnitParameter], first: bool) -> None:
        """Writes one step over parameters that all train."""
        raise NotImplementedError

    def setup(self, sink: Sink, parameters: tuple[UnitParameter, ...]) -> None:
        """Nothing: states are made by the first step."""

    def template(self, parameters: tuple[UnitParameter, ...], first: bool) -> Template:
        """What a step does. Kept: for the tuple object that was given, so that its members need not be compared, and
        for equal ones, by what the stepper prints itself as."""
        key = self._key = self._key or repr(self)
        by_object = (key, id(parameters), first)
        known = _OF_OBJECTS.get(by_object)
        if known is not None and known[0] is parameters:
            return known[1]
        made = _OF_VALUES.get((key, parameters, first))
        if made is None:
            script = Script()
            training = trainable(parameters)
            if training:
                self.write(script, training, first)
            made = script.template()
            _keep(_OF_VALUES, (key, parameters, first), made)
        _keep(_OF_OBJECTS, by_object, (parameters, made))
        return made

    def step(self, sink: Sink, parameters: tuple[UnitParameter, ...], first: bool) -> None:
        """One step."""
        made = self.template(parameters, first)
        if made.events:
            sink.play(made)


#: Templates that are kept; with steps in backward there is one per parameter.
_MOST_KNOWN = 1024
_OF_OBJECTS: dict[tuple[str, int, bool], tuple[tuple[UnitParameter, ...], Template]] = {}
_OF_VALUES: dict[tuple[str, tuple[UnitParameter, ...], bool], Template] = {}
_K = TypeVar("_K")
_V = TypeVar("_V")


def _keep(known: dict[_K, _V], key: _K, value: _V) -> None:
    if len(known) >= _MOST_KNOWN:
        known.clear()
    known[key] = value
