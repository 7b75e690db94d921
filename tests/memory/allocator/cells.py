"""The plain model's memory: a flat list of cells, in which neighbours are found by looking at all."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Cell:
    address: int
    size: int
    segment: int
    stream: int
    pool: tuple[int, int]
    small: bool
    state: str = "free"  # free, used, pending, unmapped
    requested: int = 0
    born: int = 0
    uses: list[int] = field(default_factory=list)
    events: int = 0

    @property
    def end(self) -> int:
        return self.address + self.size

    @property
    def place(self) -> tuple[tuple[int, int], bool]:
        return (self.pool, self.small)


class Cells:
    """All cells; `fixed` are the segments of the driver, the others are reservations."""

    def __init__(self) -> None:
        self.cells: list[Cell] = []
        self.fixed: set[int] = set()
        self.searches: dict[tuple[tuple[int, int], bool], int] = {}

    def mapped(self) -> list[Cell]:
        return sorted((c for c in self.cells if c.state != "unmapped"), key=lambda c: c.address)

    def reserved(self) -> int:
        return sum(c.size for c in self.mapped())

    def allocated(self) -> int:
        return sum(c.size for c in self.cells if c.state == "used")

    def before(self, cell: Cell) -> Cell | None:
        return next((c for c in self.cells if c.segment == cell.segment and c.end == cell.address), None)

    def after(self, cell: Cell) -> Cell | None:
        return next((c for c in self.cells if c.segment == cell.segment and c.address == cell.end), None)

    def whole(self, cell: Cell) -> bool:
        return self.before(cell) is None and self.after(cell) is None

    def free_in(self, pool: tuple[int, int], small: bool) -> list[Cell]:
        found = [c for c in self.cells if c.state == "free" and c.place == (pool, small)]
        return sorted(found, key=lambda c: (c.stream, c.size, c.address))

    def splits(self) -> list[Cell]:
        return [c for c in self.cells if c.state == "free" and c.segment in self.fixed and not self.whole(c)]

    def join(self, cell: Cell) -> Cell:
        """Merges with neighbours in the same idle state."""
        for other in (self.before(cell), self.after(cell)):
            if other is not None and other.state == cell.state:
                cell.address = min(cell.address, other.address)
                cell.size += other.size
                self.cells.remove(other)
        cell.born = self.searches.get(cell.place, 0)
        return cell
