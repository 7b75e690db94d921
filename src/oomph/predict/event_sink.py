"""Keeps what a composed step allocates as events, for the simulated allocator."""

from __future__ import annotations

from collections.abc import Sequence

from oomph.memory.categories import CATEGORIES, Category
from oomph.phases import Phase
from oomph.predict.digest import digest
from oomph.predict.sink import Template, rounded

_PHASES = {phase: number for number, phase in enumerate(Phase)}
_CATEGORIES = {category: number for number, category in enumerate(CATEGORIES)}


class EventSink:
    """A `Sink`. The columns have one entry per event, in order; blocks of 0 bytes have none.

    blocks: the number of the block, its handle. frees: 1 for a free, 0 for an allocation (as ALLOC and FREE of
    memory/replay/orders.py). sizes: bytes, rounded up to 512. streams: 0 is the computing one. phases: places in
    `tuple(Phase)`. categories: places in `CATEGORIES`.
    """

    def __init__(self) -> None:
        self.blocks: list[int] = []
        self.frees: list[int] = []
        self.sizes: list[int] = []
        self.streams: list[int] = []
        self.phases: list[int] = []
        self.categories: list[int] = []
        #: The places that were named: (the position of the first event there, its name).
        self.places: list[tuple[int, str]] = []
        self._live: dict[int, tuple[int, int, int]] = {}
        self._next = 0
        self._phase = _PHASES[Phase.UNKNOWN]

    def __len__(self) -> int:
        return len(self.blocks)

    def phase(self, phase: Phase, where: str = "") -> None:
        """All that follows belongs to this phase."""
        self._phase = _PHASES[phase]
        if where:
            self.places.append((len(self.blocks), where))

    def alloc(self, size_bytes: int, category: Category, name: str, stream: int = 0) -> int:  # noqa: ARG002 - as every sink
        """A new block; returns its handle."""
        handle = self._next
        self._next = handle + 1
        known = self._live[handle] = (rounded(size_bytes), stream, _CATEGORIES[category])
        self._append(handle, 0, known)
        return handle

    def free(self, handle: int) -> None:
        """Frees a block. Raises ValueError for one that is not alive."""
        known = self._live.pop(handle, None)
        if known is None:
            raise ValueError(f"Block {handle} is freed and is not alive.")
        self._append(handle, 1, known)

    def play(self, template: Template, handed: Sequence[int] = ()) -> list[int]:
        """Runs a template, on the computing stream. Raises ValueError when a handed block that it frees is not alive,
        or not as large as the template takes it to be, and for a wrong number of handed blocks."""
        first = template.first_own
        if len(handed) != first:
            raise ValueError(f"The template takes {first} blocks and was given {len(handed)}.")
        work = digest(template)
        numbers, frees, sizes, categories = work.columns
        streams = self._taken(template, handed)
        own = len(template.sizes) - first
        handles = [*handed, *range(self._next, self._next + own)]
        self._next += own
        self.blocks.extend(map(handles.__getitem__, numbers))
        self.frees.extend(frees)
        self.sizes.extend(sizes)
        self.categories.extend(categories)
        self.streams.extend(streams)
        self.phases.extend([self._phase] * len(streams))
        kept = [*handed, *([-1] * own)]
        for number in work.gone:
            kept[number] = -1
        for number in work.survivors:
            kept[number] = handles[number]
            category = _CATEGORIES[template.labels[number][0]]
            self._live[handles[number]] = (template.sizes[number], 0, category)
        return kept

    def _taken(self, template: Template, handed: Sequence[int]) -> list[int]:
        """The streams of the template's events, after the handed blocks that it frees are no longer alive."""
        work = digest(template)
        numbers = work.columns[0]
        streams = [0] * len(numbers)
        for number in work.gone:
            known = self._live.pop(handed[number], None)
            if known is None or known[0] != template.sizes[number]:
                raise ValueError(
                    f"The template frees a block of {template.sizes[number]} bytes and was handed "
                    f"{'none' if known is None else known[0]}."
                )
            if known[0] and known[1]:  # rare: a buffer that another stream made
                streams[numbers.index(number)] = known[1]
        return streams

    def _append(self, handle: int, free: int, known: tuple[int, int, int]) -> None:
        size, stream, category = known
        if not size:
            return
        self.blocks.append(handle)
        self.frees.append(free)
        self.sizes.append(size)
        self.streams.append(stream)
        self.phases.append(self._phase)
        self.categories.append(category)
