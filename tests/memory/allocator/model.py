"""The allocator's rules once more, slow and plain: one flat list of cells, searched from end to end every time.

It shares no code with the simulator. A cell is a block; neighbours are found by address; counters are sums over cells.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tests.memory.allocator.cells import Cell, Cells

MIB = 2**20
INFINITE = 2**61


class OutOfMemoryError(Exception):
    pass


@dataclass
class Model(Cells):
    addresses: list[int]
    expandable: bool = False
    max_split: int = INFINITE
    gc: float = 0.0
    divisions: int = 0
    large_segment: int = 20 * MIB
    rounding: int = 20 * MIB
    capacity: int = INFINITE
    limit: int | None = None
    reservation: int = 2**41

    def __post_init__(self) -> None:
        super().__init__()
        self.page: dict[int, int] = {}
        self.base: dict[int, int] = {}
        self.events: list[tuple[str, int, int]] = []
        self.queues: dict[int, list[Cell]] = {}
        self.done: dict[int, int] = {}
        self.scopes: list[tuple[int, int]] = []
        self.owners: dict[tuple[int, int], int] = {}
        self.freeable: list[tuple[int, int]] = []
        self.deferred: list[Cell] = []
        self.in_capture: dict[int, list[int]] = {}
        self.retries = self.ooms = 0
        self.peak_reserved = self.peak_allocated = 0

    # requests

    def round(self, size: int) -> int:
        if size < 512:
            return 512
        if self.divisions > 1 and size > 512 * self.divisions:
            power = 2 ** int(math.log2(size))
            if power == size:
                return size
            step = power // self.divisions
            return math.ceil(size / step) * step
        return math.ceil(size / 512) * 512

    def segment_for(self, rounded: int) -> int:
        if rounded <= 1 * MIB:
            return 2 * MIB
        if rounded < 10 * MIB:
            return self.large_segment
        return math.ceil(rounded / (2 * MIB)) * 2 * MIB

    def malloc(self, size: int, stream: int) -> int:
        if not self.scopes:
            self.process_events()
        rounded = self.round(size)
        pool = self.scopes[-1] if self.scopes else (0, 0)
        small = rounded <= 1 * MIB
        cell = self.search(rounded, stream, pool, small)
        if cell is None:
            cell = self.slow(rounded, stream, pool, small)
        if cell is None:
            self.ooms += 1
            self.events.append(("oom", 0, rounded))
            raise OutOfMemoryError
        rest = cell.size - rounded
        if small or self.expandable:
            cut = rest >= 512
        else:
            cut = rounded < self.max_split and rest > 1 * MIB
        if cut:
            tail = Cell(cell.address + rounded, rest, cell.segment, stream, pool, small)
            tail.born = self.searches.get(tail.place, 0)
            self.cells.append(tail)
            cell.size = rounded
        cell.state, cell.requested = "used", size
        self.peak_allocated = max(self.peak_allocated, self.allocated())
        return cell.address

    def search(self, rounded: int, stream: int, pool: tuple[int, int], small: bool) -> Cell | None:
        if self.limit is not None and self.gc > 0:
            self.searches[pool, small] = self.searches.get((pool, small), 0) + 1
        fits = [c for c in self.free_in(pool, small) if c.stream == stream and c.size >= rounded]
        if not fits:
            return None
        best = fits[0]
        if self.expandable:
            for other in fits[1:]:
                if self.growable(other) >= self.growable(best):
                    break
                best = other
        if rounded < self.max_split and best.size >= self.max_split:
            return None
        if rounded >= self.max_split and best.size >= rounded + self.rounding:
            return None
        return best

    def growable(self, cell: Cell) -> int:
        after = self.after(cell)
        return cell.size + (after.size if after is not None and after.state == "unmapped" else 0)

    def slow(self, rounded: int, stream: int, pool: tuple[int, int], small: bool) -> Cell | None:
        if self.limit is not None and self.gc > 0:
            self.collect()
        cell = self.obtain(rounded, stream, pool, small)
        if cell is None and self.release_some(rounded, stream, pool, small):
            cell = self.obtain(rounded, stream, pool, small)
        if cell is None and not self.scopes:
            self.empty_cache()
            self.retries += 1
            cell = self.obtain(rounded, stream, pool, small)
        return cell

    def obtain(self, rounded: int, stream: int, pool: tuple[int, int], small: bool) -> Cell | None:
        size = self.segment_for(rounded)
        if self.limit is not None and self.reserved() + size > self.limit:
            return None
        if self.expandable:
            return self.expand(rounded, stream, pool, small)
        if self.reserved() + size > self.capacity:
            return None
        address = self.addresses.pop(0)
        cell = Cell(address, size, address, stream, pool, small)
        self.cells.append(cell)
        self.fixed.add(address)
        self.events.append(("segment_alloc", address, size))
        self.peak_reserved = max(self.peak_reserved, self.reserved())
        return cell

    # expandable memory

    def expand(self, rounded: int, stream: int, pool: tuple[int, int], small: bool) -> Cell | None:
        cell = self.find_room(rounded, stream, pool, small)
        if cell is None:
            return None
        while cell.state == "unmapped" or cell.size < rounded:
            if cell.state == "unmapped":
                gap, wanted = cell, min(cell.size, rounded)
            else:
                after = self.after(cell)
                assert after is not None
                assert after.state == "unmapped"
                gap, wanted = after, min(after.size, rounded - cell.size)
            page = self.page[gap.segment]
            size = math.ceil(wanted / page) * page
            if self.reserved() + size > self.capacity:
                return None
            address = gap.address
            cell = Cell(address, size, gap.segment, stream, pool, small)
            gap.address, gap.size = gap.address + size, gap.size - size
            self.cells.append(cell)
            if gap.size == 0:
                self.cells.remove(gap)
            self.events.append(("segment_map", address, size))
            self.peak_reserved = max(self.peak_reserved, self.reserved())
            cell = self.join(cell)
        return cell

    def find_room(self, rounded: int, stream: int, pool: tuple[int, int], small: bool) -> Cell | None:
        gaps = [
            c for c in self.cells if c.state == "unmapped" and c.stream == stream and c.place == (pool, small)
        ]
        for gap in sorted(gaps, key=lambda c: c.address):
            before = self.before(gap)
            start = before if before is not None and before.state == "free" else gap
            room = 0
            here: Cell | None = start
            while here is not None and here.state in ("free", "unmapped"):
                room += here.size
                here = self.after(here)
            if room >= rounded:
                return start
        page = 2 * MIB if small else self.large_segment
        if self.reserved() + math.ceil(rounded / page) * page > self.capacity:
            return None
        address = self.addresses.pop(0)
        size = math.ceil(self.reservation / page) * page
        cell = Cell(address, size, address, stream, pool, small, "unmapped")
        self.cells.append(cell)
        self.page[address] = page
        self.base[address] = address
        return cell

    def unmap(self, cell: Cell) -> None:
        page, base = self.page[cell.segment], self.base[cell.segment]
        first = base + math.ceil((cell.address - base) / page) * page
        last = base + (cell.end - base) // page * page
        if first >= last:
            return
        for start, end, state in (
            (cell.address, first, "free"),
            (first, last, "unmapped"),
            (last, cell.end, "free"),
        ):
            if end > start:
                piece = Cell(start, end - start, cell.segment, cell.stream, cell.pool, cell.small, state)
                piece.born = self.searches.get(piece.place, 0)
                self.cells.append(piece)
        self.cells.remove(cell)
        self.join(next(c for c in self.cells if c.address == first))
        self.events.append(("segment_unmap", first, last - first))

    # frees

    def cell_at(self, address: int) -> Cell:
        return next(c for c in self.cells if c.address == address and c.state in ("used", "pending"))

    def free(self, address: int) -> None:
        cell = self.cell_at(address)
        cell.state = "pending"
        if not cell.uses:
            self.finish(cell)
        elif self.scopes:
            self.deferred.append(cell)
        else:
            self.watch(cell)

    def watch(self, cell: Cell) -> None:
        for stream in cell.uses:
            cell.events += 1
            self.queues.setdefault(stream, []).append(cell)
        cell.uses = []
        if cell.events == 0:
            self.finish(cell)

    def finish(self, cell: Cell) -> None:
        cell.state = "free"
        self.join(cell)

    def record_stream(self, address: int, stream: int) -> None:
        cell = self.cell_at(address)
        if stream != cell.stream:
            if stream not in cell.uses:
                cell.uses.append(stream)
            if self.scopes:
                self.in_capture.setdefault(address, []).append(stream)

    def complete_events(self, stream: int) -> None:
        if self.queues.get(stream):
            self.done[stream] = len(self.queues[stream])

    def undefer(self) -> None:
        for cell in self.deferred:
            captured = self.in_capture.pop(cell.address, [])
            cell.uses = [stream for stream in cell.uses if stream not in captured]
            self.watch(cell)
        self.deferred = []

    def process_events(self) -> None:
        self.undefer()
        for stream in sorted(self.done):
            for _ in range(self.done[stream]):
                self.tick(self.queues[stream].pop(0))
        self.done = {}

    def tick(self, cell: Cell) -> None:
        cell.events -= 1
        if cell.events == 0:
            self.finish(cell)

    # giving back

    def drop(self, cell: Cell) -> None:
        self.cells.remove(cell)
        self.events.append(("segment_free", cell.address, cell.size))

    def release_place(self, pool: tuple[int, int], small: bool) -> None:
        cells = self.free_in(pool, small)
        for cell in cells:
            if cell.segment in self.fixed and self.whole(cell):
                self.drop(cell)
        for cell in cells:
            if cell.segment not in self.fixed:
                self.unmap(cell)
        touched = {cell.segment for cell in cells}
        for cell in [c for c in self.cells if c.state == "unmapped" and c.segment in touched]:
            if self.whole(cell):
                self.cells.remove(cell)

    def empty_cache(self) -> None:
        if not self.scopes:
            self.undefer()
            for stream in sorted(self.queues):
                for cell in self.queues[stream]:
                    self.tick(cell)
            self.queues, self.done = {}, {}
            self.release_place((0, 0), False)
            self.release_place((0, 0), True)
        for pool in list(self.freeable):
            self.release_place(pool, True)
            self.release_place(pool, False)
            if not any(c.pool == pool for c in self.mapped()):
                self.freeable.remove(pool)
                self.owners.pop(pool, None)
                self.cells = [c for c in self.cells if c.pool != pool]
                for small in (True, False):
                    self.searches.pop((pool, small), None)

    def release_some(self, rounded: int, stream: int, pool: tuple[int, int], small: bool) -> bool:
        if self.max_split >= INFINITE:
            return False
        key = max(rounded, self.max_split)
        mine = [c for c in self.free_in(pool, small) if c.stream == stream]
        enough = [c for c in mine if c.size >= key]
        if enough and enough[0].segment in self.fixed:
            self.drop(enough[0])
            return True
        freed = 0
        for cell in reversed([c for c in mine if c.size < key]):
            if freed >= key or cell.size < self.max_split:
                break
            if cell.segment in self.fixed:
                freed += cell.size
                self.drop(cell)
        return freed >= key

    def collect(self) -> None:
        assert self.limit is not None
        allowed = int(self.gc * self.limit)
        over = self.reserved() - allowed
        if over <= 0:
            return
        now = self.searches.get(((0, 0), False), 0)
        freed, progress = 0, True
        while freed < over and progress:
            left = [c for c in self.free_in((0, 0), False) if c.segment in self.fixed and self.whole(c)]
            if not left:
                return
            mean = sum(now - c.born for c in left) / len(left)
            old = [c for c in left if now - c.born >= mean]
            progress = bool(old)
            for cell in old:
                freed += cell.size
                self.drop(cell)

    # private pools

    def begin_pool(self, pool: tuple[int, int]) -> None:
        self.owners[pool] = self.owners.get(pool, 0) + 1
        self.scopes.append(pool)

    def end_pool(self, pool: tuple[int, int]) -> None:
        self.scopes.remove(pool)

    def release_pool(self, pool: tuple[int, int]) -> None:
        self.owners[pool] -= 1
        if self.owners[pool] == 0:
            self.freeable.append(pool)
