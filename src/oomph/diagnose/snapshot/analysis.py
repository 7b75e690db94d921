"""One device of a snapshot with everything that can be asked of it, each computed when first asked for."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from oomph.diagnose.snapshot.categories import categorise
from oomph.diagnose.snapshot.exact import exact_categories, exact_steps, of_blocks
from oomph.diagnose.snapshot.labels import Labels
from oomph.diagnose.snapshot.model import Moment, Steps
from oomph.diagnose.snapshot.moments import choose
from oomph.diagnose.snapshot.scene import bytes_in_use
from oomph.diagnose.snapshot.steps import event_phases, find_steps
from oomph.diagnose.snapshot.steps_rounds import find_rounds
from oomph.evidence.snapshot import Columns, DeviceSnapshot, Snapshot, allocator_settings
from oomph.memory.allocator.layout import ALLOCATED, SegmentState
from oomph.memory.allocator.settings import AllocatorSettings
from oomph.memory.categories import CATEGORIES, Category
from oomph.memory.lifetimes import Lifetimes, lifetimes
from oomph.memory.moment import layout_at
from oomph.memory.replay.start import Start, start_state
from oomph.memory.stacks import Frame
from oomph.memory.timeline import Kind, Timeline
from oomph.phases import Phase

Ints = NDArray[np.int64]


class Analysis:
    """Device `index` of `snapshot`. `at` says which moment is asked about (see `moments.choose`), None for the one
    that matters. `within` (begin, end) are the positions among which a peak is looked for; None is all. Rows are those
    of `lifetimes`; positions those of `timeline`.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        index: int,
        at: str | None = None,
        *,
        within: tuple[int, int] | None = None,
    ) -> None:
        self.snapshot = snapshot
        self.device: DeviceSnapshot = snapshot.devices[index]
        self.timeline: Timeline = self.device.timeline
        self._at = at
        self.within = slice(0, len(self.timeline)) if within is None else slice(*within)

    @property
    def index(self) -> int:
        return self.device.index

    @property
    def exact(self) -> Columns | None:
        """What a trace knows of its events; None for a snapshot of a real run."""
        traced = self.snapshot.traced
        return None if traced is None else traced.columns.get(self.index)

    @cached_property
    def settings(self) -> AllocatorSettings:
        return allocator_settings(self.snapshot)

    @cached_property
    def start(self) -> Start:
        """The state before the first event."""
        return start_state(self.device.segments, self.timeline, self.settings)

    @cached_property
    def lifetimes(self) -> Lifetimes:
        return lifetimes(self.timeline, self.start, self.settings, self.device.segments)

    @cached_property
    def allocated_bytes(self) -> Ints:
        """Allocated bytes after each event: sums of rounded requests."""
        rows = self.lifetimes.alive_at(-1)
        begin = int(self.lifetimes.size_bytes[rows].sum())
        return begin + np.cumsum(self.lifetimes.allocated_changes())

    @cached_property
    def reserved_bytes(self) -> Ints:
        """Reserved bytes after each event."""
        return self.start.reserved_bytes + np.cumsum(self.timeline.reserved_change_bytes)

    @cached_property
    def peak_allocated_bytes(self) -> int:
        """The most that was allocated, with rests that could not be split off where the layout of the peak is at hand:
        it is the moment of the report, or another moment was asked for (a layout takes a tenth of a second in a
        trace of a million events)."""
        curve = self.allocated_bytes
        here = bytes_in_use(self.layout)[0]
        if not len(curve):
            return here
        peak = int(np.argmax(curve))
        if self._at is not None and peak != self.moment.position:
            here = max(here, bytes_in_use(self.layout_at(peak))[0])
        return max(int(curve[peak]), here)

    # -- stacks, phases, steps, categories ------------------------------------------------------------------------

    @cached_property
    def labels(self) -> Labels:
        return Labels(self.timeline.stacks)

    @cached_property
    def _alloc_stacks(self) -> NDArray[np.int32]:
        return self.timeline.stack_ids(self.timeline.positions(Kind.ALLOC))

    @cached_property
    def block_stack(self) -> NDArray[np.int32]:
        """The stack that allocated each block; -1 where none was recorded. For a block from before the trace, the one
        that the snapshot's end shows, if the block is still there."""
        lives = self.lifetimes
        result = np.full(len(lives), -1, np.int32)
        inside = lives.born >= 0
        where = np.searchsorted(self.timeline.positions(Kind.ALLOC), lives.born[inside])
        result[inside] = self._alloc_stacks[where]
        known = self.device.block_stacks
        if known:
            lasting = np.flatnonzero(~inside & (lives.freed >= lives.events))
            for row, address in zip(lasting.tolist(), lives.address[lasting].tolist(), strict=True):
                result[row] = known.get(address, -1)
        return result

    def frames(self, stack: int) -> tuple[Frame, ...]:
        return self.timeline.stacks.frames(stack)

    @cached_property
    def event_phase(self) -> NDArray[np.int8]:
        """The phase of each event, as an index into `tuple(Phase)`."""
        if self.exact is not None:
            return self.exact.phase
        return event_phases(
            self.timeline, self._alloc_stacks, self.labels, self.snapshot.annotations, self.index
        )

    @cached_property
    def steps(self) -> Steps:
        traced = self.snapshot.traced
        if self.exact is not None and traced is not None:
            return exact_steps(self.exact, self.timeline, traced.steps_done)
        found = find_steps(self.timeline, self.event_phase, self.snapshot.annotations, self.index)
        unknown = tuple(Phase).index(Phase.UNKNOWN)
        if found.count or bool((self.event_phase != unknown).any()):
            return found
        return self.rounds or found

    @cached_property
    def rounds(self) -> Steps | None:
        """What repeats in the trace by its stacks, whatever it is; None where nothing does."""
        return find_rounds(self.timeline, self._alloc_stacks)

    def step_of(self, positions: Ints) -> NDArray[np.int32]:
        """The step (from 0) in which each position lies; -1 before the first, or without steps."""
        firsts = np.array(self.steps.first_positions, np.int64)
        return (np.searchsorted(firsts, positions, side="right") - 1).astype(np.int32)

    @cached_property
    def block_step(self) -> NDArray[np.int32]:
        """The step in which each block was born; -1 before the trace, or without steps."""
        result = self.step_of(self.lifetimes.born)
        result[self.lifetimes.born < 0] = -1
        return result

    @cached_property
    def _categories(self) -> tuple[NDArray[np.int8], NDArray[np.int8], NDArray[np.int8]]:
        if self.exact is None:
            return self._told
        known = exact_categories(self.exact, self.timeline, self.lifetimes)
        open_ = known[0] == CATEGORIES.index(Category.UNKNOWN)
        if not open_.any():
            return known
        category, how, certainty = (
            np.where(open_, told, each) for told, each in zip(self._told, known, strict=True)
        )
        return category, how, certainty

    @property
    def _told(self) -> tuple[NDArray[np.int8], NDArray[np.int8], NDArray[np.int8]]:
        """Categories as stacks and lifetimes tell them."""
        return categorise(
            self.lifetimes,
            self.block_stack,
            self.labels,
            self.event_phase,
            self.steps,
            breaks=self.timeline.positions(Kind.OOM),
        )

    @property
    def block_category(self) -> NDArray[np.int8]:
        """Index into `memory.categories.CATEGORIES`."""
        return self._categories[0]

    @property
    def block_how(self) -> NDArray[np.int8]:
        """Index into `tuple(How)`."""
        return self._categories[1]

    @property
    def block_certainty(self) -> NDArray[np.int8]:
        """Index into `tuple(Certainty)`."""
        return self._categories[2]

    @cached_property
    def block_label(self) -> NDArray[np.int32]:
        """What each block belongs to, as an index into `exact.labels`; -1 where only a trace would know."""
        if self.exact is None:
            return np.full(len(self.lifetimes), -1, np.int32)
        return of_blocks(self.exact, 1, self.timeline, self.lifetimes, -1)

    def labels_of(self, rows: NDArray[np.intp]) -> list[str]:
        """The labels of these blocks, each once; [] where none is known."""
        if self.exact is None:
            return []
        labels = self.exact.labels
        return [labels[number] for number in np.unique(self.block_label[rows]).tolist() if number >= 0]

    # -- the moment -----------------------------------------------------------------------------------------------

    @cached_property
    def moment(self) -> Moment:
        return choose(self, self._at)

    @cached_property
    def layout(self) -> list[SegmentState]:
        """Segments and blocks at the moment."""
        return self.layout_at(self.moment.position)

    def layout_at(self, position: int) -> list[SegmentState]:
        """Segments and blocks after the event at `position`."""
        return layout_at(self.device.segments, self.timeline, position, self.settings)

    @cached_property
    def alive(self) -> NDArray[np.intp]:
        """Rows of the blocks that were allocated at the moment."""
        return self.lifetimes.alive_at(self.moment.position)

    @cached_property
    def alive_bytes(self) -> Ints:
        """The exact size of each block of `alive`, with the rest that could not be split off: from the layout."""
        return self.sizes_in(self.layout, self.alive)

    def sizes_in(self, layout: list[SegmentState], rows: NDArray[np.intp]) -> Ints:
        """The size of each row's block in a layout; its rounded request where the layout does not have it."""
        active = [block for segment in layout for block in segment.blocks if block.state == ALLOCATED]
        active.sort(key=lambda block: block.address)
        address = np.array([block.address for block in active], np.int64)
        size = np.array([block.size for block in active], np.int64)
        wanted = self.lifetimes.address[rows]
        result: Ints = self.lifetimes.size_bytes[rows].copy()
        if len(address):
            place = np.minimum(np.searchsorted(address, wanted), len(address) - 1)
            same = address[place] == wanted
            result[same] = size[place[same]]
        return result
