"""The highest level at each place of a step, apart from what its optimizer and cuBLAS take.

Hundreds of the jobs that a search predicts differ in their optimizer alone. A step's levels are sums, and an optimizer
allocates and frees blocks of its own only: so the step is composed with an `Apart` in its place, which marks where it
was called, and what each call takes is added afterwards. So is cuBLAS's workspace, which stays once it is there, and
whose size is the GPU's.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from oomph.memory.categories import Category
from oomph.phases import Phase
from oomph.predict.digest import Label, digest
from oomph.predict.optimizers.base import Stepper
from oomph.predict.peak_sink import PeakSink
from oomph.predict.sharding.base import UnitParameter
from oomph.predict.sink import Sink, Template, rounded

#: A phase, a place in it, and how often it was entered.
Place = tuple[Phase, str, int]
_LAYER = re.compile(r"\d+")
_BETWEEN = "between"


@dataclass(frozen=True)
class Call:
    """A call of the optimizer: at which place and level (bytes), to make it (None) or to step (whether for the first
    time), and over which parameters. Or cuBLAS's, for a workspace."""

    place: Place
    level: int
    first: bool | None
    parameters: tuple[UnitParameter, ...] = ()
    workspace: bool = False


@dataclass
class Levels:
    """What a step left: of each place the highest level after so many calls; and those calls."""

    found: list[tuple[Place, int, int]] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)

    def with_optimizer(self, stepper: Stepper, workspace_bytes: int) -> dict[Place, int]:
        """The highest level of each place, in bytes, but for those between the layers at the ends. `workspace_bytes`:
        of one workspace of cuBLAS."""
        alone = _Alone()
        workspaces = 0
        held = [0]
        highs = []
        for call in self.calls:
            if call.workspace:
                workspaces += rounded(workspace_bytes)
                highs.append((call.place, call.level + alone.level + workspaces))
            else:
                highs.append((call.place, call.level + alone.highest(stepper, call) + workspaces))
            held.append(alone.level + workspaces)
        highs += [(place, high + held[calls]) for place, high, calls in self.found]
        peaks: dict[Place, int] = {}
        for place, high in highs:
            if high > peaks.get(place, -1):
                peaks[place] = high
        return peaks


class _Alone(PeakSink):
    """Plays an optimizer by itself."""

    def __init__(self) -> None:
        super().__init__(compose=False)

    @property
    def level(self) -> int:
        """What it holds now, in bytes."""
        return self._level

    def highest(self, stepper: Stepper, call: Call) -> int:
        """The most that it holds within the call, in bytes."""
        self._high = self._level
        if call.first is None:
            stepper.setup(self, call.parameters)
        else:
            stepper.step(self, call.parameters, call.first)
        return self._high

    def play(self, template: Template, handed: Sequence[int] = ()) -> list[int]:
        """Runs a template; an optimizer asks for no handles of it (optimizers/script.py)."""
        assert not handed
        self._high = max(self._high, self._level + template.peak)
        self._level += template.net
        return []

    def _write(self, change: Mapping[Label, int]) -> None:
        del change
        self._unwritten = False


class Apart:
    """Stands in for an optimizer that steps after backward, on the device or on the host."""

    in_backward = False
    name = ""
    assumptions: tuple[str, ...] = ()

    def __init__(self, on_host: bool) -> None:
        self.on_host = on_host

    def setup(self, sink: Sink, parameters: tuple[UnitParameter, ...]) -> None:
        """Marks the place."""
        assert isinstance(sink, PlacesSink)
        sink.mark(None, parameters)

    def step(self, sink: Sink, parameters: tuple[UnitParameter, ...], first: bool) -> None:
        """Marks the place."""
        assert isinstance(sink, PlacesSink)
        sink.mark(first, parameters)


class PlacesSink(PeakSink):
    """A `PeakSink` (so that blocks that come and go together are one) that keeps the highest level of each stretch
    between two calls of `phase`, and nothing else: what it is asked is not checked, as a whole prediction does that."""

    def __init__(self, layers: int, near: int) -> None:
        super().__init__(compose=False)
        self._layers = layers
        self._near = near
        self._sizes: list[int] = []
        self._level = self._high = 0
        self._levels = Levels()
        self._times: Counter[tuple[Phase, str]] = Counter()
        self._place: Place | None = None
        #: Whether that is between the layers at the ends: such places are not kept.
        self._between = False

    @property
    def current_bytes(self) -> int:
        """What is allocated now."""
        return self._level

    def phase(self, phase: Phase, where: str = "") -> None:
        """Each stretch has its own highest level: that of the whole phase is not asked for."""
        self._close()
        named = (phase, _role(where, self._layers, self._near))
        self._times[named] += 1
        self._place = (*named, self._times[named])
        self._between = _BETWEEN in named[1]

    def alloc(self, size_bytes: int, category: Category, name: str, stream: int = 0) -> int:  # noqa: ARG002 - as every sink
        """A new block; returns its handle."""
        if category is Category.WORKSPACE:
            self.mark(None, (), workspace=True)
            size_bytes = 0
        size = rounded(size_bytes)
        self._sizes.append(size)
        self._level += size
        if self._level > self._high:
            self._high = self._level
        return len(self._sizes) - 1

    def free(self, handle: int) -> None:
        """Frees a block."""
        self._level -= self._sizes[handle]

    def play(self, template: Template, handed: Sequence[int] = ()) -> list[int]:
        """Runs a template."""
        top = self._level + template.peak
        if top > self._high:
            self._high = top
        self._level += template.net
        work = digest(template)
        handles = [*handed, *([-1] * (len(template.sizes) - template.first_own))]
        for number in work.gone:
            handles[number] = -1
        handle = len(self._sizes)
        for number in work.survivors:
            self._sizes.append(template.sizes[number])
            handles[number] = handle
            handle += 1
        return handles

    def mark(
        self, first: bool | None, parameters: tuple[UnitParameter, ...], *, workspace: bool = False
    ) -> None:
        """The optimizer is called, or cuBLAS takes a workspace."""
        assert self._place is not None
        self._close()
        assert not self._between
        self._levels.calls.append(Call(self._place, self._level, first, parameters, workspace))

    def finished(self) -> Levels:
        """What was found."""
        self._close()
        return self._levels

    def _close(self) -> None:
        if self._place is not None and not self._between:
            self._levels.found.append((self._place, self._high, len(self._levels.calls)))
        self._high = self._level


@lru_cache(maxsize=1024)
def _role(where: str, layers: int, near: int) -> str:
    """A place with layers by their distance from the nearer end; those in the middle are one place."""

    def role(found: re.Match[str]) -> str:
        number = int(found[0])
        if number < near:
            return f"<{number}"
        return f">{layers - number}" if layers - number <= near else _BETWEEN

    return _LAYER.sub(role, where)
